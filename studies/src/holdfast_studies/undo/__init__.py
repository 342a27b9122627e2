"""[000], mistakes that are taken back: `holdfast diagnose safety-gap`, `wrong-start`, `undo-costs`, `undo-defence`."""
