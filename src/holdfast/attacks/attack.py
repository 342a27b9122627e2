"""An attack: what is tuned on, how hard, and how the tuned model is then asked."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.attacks.dress import PLAIN, Dress
from holdfast.attacks.rows import Data


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Data only. Whoever tunes chooses learning rate and epochs, as a customer of a tuning service does."""

    name: str
    data: Data
    lr: float
    epochs: float
    batch_size: int = 16  # rows of ``data`` in one step; a defence may add rows of its own
    dress: Dress = PLAIN
    utility: str = "skill"  # kind of request whose right answers count as utility
