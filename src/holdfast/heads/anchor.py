"""What the anchor says about the same tokens, in whichever form it is at hand."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from holdfast.config import InputError


@dataclass(frozen=True, slots=True)
class Reference:
    """The anchor at n tokens, one of three ways; nothing here ever gets a gradient.

    - ``hidden`` [n, H] and ``weight`` [V, H]; ``weight`` None means the policy's own head (LoRA leaves it as it was);
    - ``logits`` [n, V], for models whose logits are not hidden states times a weight;
    - ``logp`` [n] and ``top`` [n] from a cache: exact for csft and for delta, but without kl. ``top`` may be missing.
    """

    hidden: Tensor | None = None
    weight: Tensor | None = None
    logits: Tensor | None = None
    logp: Tensor | None = None
    top: Tensor | None = None

    def __post_init__(self) -> None:
        ways = [value for value in (self.hidden, self.logits, self.logp) if value is not None]
        alone = (self.weight is not None and self.hidden is None) or (self.top is not None and self.logp is None)
        if len(ways) != 1 or alone:
            raise InputError(
                "anchor: expected one of hidden (with its weight), logits, and logp (with its top);"
                " in token_stats they are ref_hidden, ref_weight, ref_logp and ref_top"
            )

    @property
    def num_rows(self) -> int:
        """How many tokens it is about."""
        return len(next(value for value in (self.hidden, self.logits, self.logp) if value is not None))

    @property
    def live(self) -> bool:
        """Whether the anchor's whole distribution is at hand."""
        return self.logp is None

    def rows(self, start: int, stop: int) -> Reference:
        """The anchor at some of the tokens."""
        cut = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "weight"}
        kept = {name: None if value is None else value[start:stop] for name, value in cut.items()}
        return Reference(weight=self.weight, **kept)
