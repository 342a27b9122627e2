"""Every objective against a literal transcription of its equation in float64, from full softmaxes, one token at a time.

The transcription shares no code with the package: plain Python floats, and numerical derivatives in the logits.
"""

from collections.abc import Callable
from math import exp, log

import pytest
import torch

from holdfast import objectives
from holdfast.heads import Group, Reference, TokenStats, fused_loss, token_stats
from holdfast.records.roles import Role
from parity.conftest import ParityRow

NUM, VOCAB = 6, 7
POSITION, ROLE = [0, 1, 4, 5, 0, 2], [Role.PREFIX, Role.ERROR, Role.UNDO, Role.CORRECTION, Role.RESPONSE, Role.ERROR]
DELTA_EPOCH = 0.1 + 0.2 * 3 / 25

Row = list[float]


def softmax(x: Row) -> Row:
    total = sum(exp(v) for v in x)
    return [exp(v) / total for v in x]


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def argmax(x: Row) -> int:
    return x.index(max(x))


def kl(p: Row, q: Row) -> float:
    return sum(p_j * log(p_j / q_j) for p_j, q_j in zip(p, q, strict=True))


def weight_002(p_y: float, q_y: float, position: int) -> float:
    """[002] eq. 2 with Qi et al.'s beta."""
    beta = 0.5 if position == 0 else 2.0 if position <= 4 else 0.1
    return 2 * (1 - sigmoid(beta * (log(p_y) - log(q_y))))


def preference_002(p: Row, q: Row) -> float:
    """[002] eq. 5 and 6, from probabilities as printed."""
    return -log(sigmoid(kl(p, q) * (log(p[argmax(q)]) - log(p[argmax(p)]))))


# (policy logits, anchor logits, target, position, role, what is held constant) -> loss
Equation = Callable[[Row, Row, int, int, int, Row], float]


def eq_sft(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return -log(softmax(a)[y])


def eq_masked(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return 0.0 if role == Role.ERROR else -log(softmax(a)[y])


def eq_dft(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    """[004] eq. 24."""
    return -softmax(held)[y] * log(softmax(a)[y])


def eq_csft(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return -weight_002(softmax(held)[y], softmax(b)[y], position) * log(softmax(a)[y])


def eq_pa(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return preference_002(softmax(a), softmax(b))


def eq_total(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    """[002] eq. 1 and 7."""
    return eq_csft(a, b, y, position, role, held) + DELTA_EPOCH * eq_pa(a, b, y, position, role, held)


def eq_kl_sft(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return -log(softmax(a)[y]) + 0.6 * kl(softmax(a), softmax(b))


def eq_distill(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return kl(softmax(b), softmax(a))


def eq_first_two(a: Row, b: Row, y: int, position: int, role: int, held: Row) -> float:
    return 0.0 if position < 2 else -log(softmax(a)[y])


OURS: dict[str, tuple[Equation, Callable[[TokenStats, slice], torch.Tensor]]] = {
    "sft": (eq_sft, lambda s, _: objectives.sft(s)),
    "masked_sft": (eq_masked, lambda s, rows: objectives.masked_sft(s, role=torch.tensor(ROLE)[rows])),
    "first_k_masked": (
        eq_first_two,
        lambda s, r: objectives.first_k_masked(s, position=torch.tensor(POSITION)[r], k=2),
    ),
    "dft": (eq_dft, lambda s, _: objectives.dft(s)),
    "csft": (eq_csft, lambda s, rows: objectives.csft(s, position=torch.tensor(POSITION)[rows])),
    "pa": (eq_pa, lambda s, _: objectives.pa(s)),
    "csft_pa": (
        eq_total,
        lambda s, rows: objectives.csft_pa(
            s, position=torch.tensor(POSITION)[rows], pa_weight=objectives.pa_weight_at(3, 25)
        ),
    ),
    "kl_sft": (eq_kl_sft, lambda s, _: objectives.kl_sft(s, kl_weight=0.6)),
    "distill": (eq_distill, lambda s, _: objectives.distill(s)),
}


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_value_and_gradient(name: str, parity_row: ParityRow) -> None:
    equation, ours = OURS[name]
    random = torch.Generator().manual_seed(3)
    a, b = (torch.randn(NUM, VOCAB, generator=random, dtype=torch.float64) for _ in range(2))
    y = torch.randint(VOCAB, (NUM,), generator=random)
    assert (a.argmax(-1) != b.argmax(-1)).sum() >= 3
    rows = list(zip(a.tolist(), b.tolist(), y.tolist(), POSITION, ROLE, strict=True))
    expected = [equation(*row, row[0]) for row in rows]
    slopes = [[slope(equation, row, j) for j in range(VOCAB)] for row in rows]

    eye, logits = torch.eye(VOCAB, dtype=torch.float64), a.clone().requires_grad_()
    stats = token_stats(logits, eye, y, ref_hidden=b, ref_weight=eye, chunk_tokens=4)
    loss = ours(stats, slice(None))
    group = Group(0, NUM, ours, Reference(hidden=b, weight=eye))
    fused = fused_loss(logits, eye, y, [group], scale=torch.ones(NUM), chunk_tokens=4)
    for value, total in ((loss, loss.sum()), (fused.per_token, fused.loss)):
        assert value.tolist() == pytest.approx(expected, rel=1e-13, abs=1e-13)
        (grad,) = torch.autograd.grad(total, logits)
        wanted = torch.tensor(slopes, dtype=torch.float64)
        torch.testing.assert_close(grad, wanted, rtol=1e-8, atol=1e-9)
        gap = max(abs(ours - theirs) for ours, theirs in zip(value.tolist(), expected, strict=True))
        peer = ("the equations, literally", "plain Python, float64")
        parity_row(*peer, f"`{name}`: the loss of every token", gap)
        parity_row(*peer, f"`{name}`: its gradient (differences of fourth order)", float((grad - wanted).abs().max()))


def slope(equation: Equation, row: tuple[Row, Row, int, int, int], j: int, step: float = 1e-5) -> float:
    """d/da_j by differences of fourth order, with what the paper detaches held at its value."""
    a, *others = row

    def at(shift: float) -> float:
        return equation([v + shift * (k == j) for k, v in enumerate(a)], *others, a)

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
