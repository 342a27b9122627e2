"""[004]'s gradient attribution on a real model: the stored report is read, and the verdicts follow it."""

from holdfast_studies.papers import attribution_004
from holdfast_studies.papers.study import Figures


def verdict(claim: str, figures: Figures) -> str:
    study = attribution_004.STUDY
    return next(each for each in study.claims if each.id == f"{study.id}-{claim}").judge(figures).verdict


def test_attribution_on_a_real_model() -> None:
    def of(ratio: float, exponent: tuple[float, ...] = (0.1, 0.0, 0.2), bins: tuple[int, int] = (6, 6)) -> Figures:
        return {"norms": [ratio, 1.0], "exponent": list(exponent), "bins": list(bins)}

    names = ("kl_reward", "kl_loss_k2", "kl_loss_k3", "sft", "reward")
    figures: Figures = {name: of(1.1) for name in names}
    assert verdict("kl", figures) == "does not hold"
    grown = figures | {"kl_reward": of(9.0, (1.0, 0.8, 1.2))}
    assert verdict("kl", grown) == "holds in part"
    assert verdict("sft", figures) == "does not hold"
    assert verdict("sft", figures | {"sft": of(3.0)}) == "holds"
    assert verdict("reward", grown) == "holds"
    assert verdict("reward", figures | {"reward": of(5.0)}) == "does not hold"
    assert verdict("reward", figures | {"reward": of(5.0, bins=(2, 6))}) == "not testable here"
