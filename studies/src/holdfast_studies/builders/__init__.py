"""Makers of what the package ships: the embedded models, the judges `learned` and `outcome`, and docs/judging.md."""
