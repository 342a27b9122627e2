"""The version, where nothing else has to be imported for it."""

__version__ = "0.2.0"
