"""Qwen2.5-Coder under attack, a model that its vendor aligned: `python -m holdfast_studies.qwen`; docs/results/qwen.md."""
