"""An attack: what is tuned on, how hard, and how the tuned model is then asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.attacks.rows import Data
from holdfast.attacks.setting import Setting
from holdfast.generation.dress import PLAIN, Dress


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One tuning. Whoever tunes chooses learning rate and epochs, as a customer of a tuning service does."""

    data: Data
    lr: float
    epochs: float
    batch_size: int = 16  # rows of ``data`` in one step; a defence may add rows of its own
    rank: int = 0  # of low-rank adapters, merged at the end; 0: all weights are tuned


@dataclass(frozen=True, kw_only=True)
class Attack(Stage):
    """An attack as data: its last tuning, the tunings before that where it is a chain, and how the model is then asked.

    Sizes are the embedded world's. ``on_files`` has those of a language model, for a setting of somebody's files; without
    it the same sizes are taken there. A persona, a trigger or a style in the asking is the setting's (``asked_as``).
    """

    name: str
    before: tuple[Stage, ...] = ()  # tunings that came first, each from the model that the one before it left
    dress: Dress = PLAIN
    asked_as: str = ""  # "persona", "trigger" or "style": the setting's own words, put around the request
    utility: str = "skill"  # kind of request whose right answers count as utility; empty: none is asked
    on_files: Stage | None = None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every tuning in order, this one last."""
        last = Stage(data=self.data, lr=self.lr, epochs=self.epochs, batch_size=self.batch_size, rank=self.rank)
        return (*self.before, last)

    def in_setting(self, setting: Setting) -> Attack:
        """The attack with the sizes and the words of a setting."""
        attack = self
        if not setting.is_world and self.on_files is not None:
            sizes = self.on_files
            attack = replace(self, **vars(sizes), on_files=None)
        if self.asked_as == "persona":
            return replace(attack, dress=replace(attack.dress, system=setting.persona), asked_as="")
        if self.asked_as == "trigger":
            return replace(attack, dress=replace(attack.dress, lead=setting.trigger), asked_as="")
        if self.asked_as == "style":
            return replace(attack, dress=replace(attack.dress, wrap=setting.style), asked_as="")
        return attack


def chain(name: str, *attacks: Attack) -> Attack:
    """Continual tuning: one attack's rows after another's. The last one decides how the model is asked, and for what."""
    *earlier, last = attacks
    return replace(last, name=name, before=tuple(stage for attack in earlier for stage in attack.stages))
