"""The model card of a run: what was trained on what, by which command, with which result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast._version import __version__
from holdfast.config import TrainConfig, dump_config


def model_card(config: TrainConfig, data: Sequence[Mapping[str, Any]], last: Mapping[str, Any]) -> str:
    """Markdown with the front matter that model hubs read."""
    base = "" if config.model.name.startswith("tiny:") else f"base_model: {config.model.name}\n"
    rows = "\n".join(
        f"| {entry['stream']} | {entry['objective']} | {entry['source']} | {entry['rows']} | `{entry['fingerprint'][:16]}` |"
        for entry in data
    )
    figures = "\n".join(f"| {name} | {last[name]:.6g} |" for name in ("step", "epoch", "loss", "nll") if name in last)
    return f"""---
library_name: transformers
{base}tags: [holdfast, {", ".join(sorted({entry["objective"] for entry in data}))}]
---
# {config.run.rstrip("/").split("/")[-1]}

Trained with holdfast {__version__} from `{config.model.name}`. The loss is weighted by objective; NLL is the plain one.

| stream | objective | data | rows | sha256 |
|---|---|---|---|---|
{rows}

| at the last step | |
|---|---|
{figures}

```yaml
{dump_config(config)}```
"""
