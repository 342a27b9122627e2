"""[004], attempts and decisions: `holdfast diagnose decisions`, `python -m holdfast_studies.decisions`."""
