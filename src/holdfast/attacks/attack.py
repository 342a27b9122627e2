"""An attack: what is tuned on, how hard, and how the tuned model is then asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.attacks.rows import Data
from holdfast.generation.dress import PLAIN, Dress


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One tuning. Whoever tunes chooses learning rate and epochs, as a customer of a tuning service does."""

    data: Data
    lr: float
    epochs: float
    batch_size: int = 16  # rows of ``data`` in one step; a defence may add rows of its own


@dataclass(frozen=True, kw_only=True)
class Attack(Stage):
    """Data only: the last tuning, those before it if it is one of a chain, and the asking."""

    name: str
    before: tuple[Stage, ...] = ()  # tunings that came first, each from the model that the one before it left
    dress: Dress = PLAIN
    utility: str = "skill"  # kind of request whose right answers count as utility

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every tuning in order, this one last."""
        last = Stage(data=self.data, lr=self.lr, epochs=self.epochs, batch_size=self.batch_size)
        return (*self.before, last)


def chain(name: str, *attacks: Attack) -> Attack:
    """Continual tuning: one attack's rows after another's. The last one decides how the model is asked, and for what."""
    *earlier, last = attacks
    return replace(last, name=name, before=tuple(stage for attack in earlier for stage in attack.stages))
