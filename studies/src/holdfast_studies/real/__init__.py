"""SmolLM2 under attack: `align` it, `holdfast attack`, then `page`; docs/results/smollm2-outcomes.md. `fetch` gets the models."""
