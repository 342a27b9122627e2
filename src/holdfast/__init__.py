"""holdfast: fine-tune without losing safety, take back mistakes, oversee, and measure all of it honestly."""

__version__ = "0.1.0"
