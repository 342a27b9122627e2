"""The study of [001]'s claims on real samples: HumanEval, GSM8K and refusals. `holdfast oversee study` runs it."""
