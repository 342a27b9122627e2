"""Worlds of the studies: products digit by digit, checked again by their writer; dialogues to summarise."""
