"""Checkpoints: the folders on disk, what is in them, and the file layer below."""
