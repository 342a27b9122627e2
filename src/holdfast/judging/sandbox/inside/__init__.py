"""What runs inside the sandbox: the standard library only, imported by path there, hence relative imports here."""
