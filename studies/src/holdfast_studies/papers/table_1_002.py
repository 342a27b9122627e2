"""[002] Table 1 and section 3: which properties the three objectives have, tested instead of ticked.

Set-up: float64, 400 draws of policy and anchor logits over 6 tokens and a target; a token of the first five (beta 0.5), PA's
coefficient 0.3, the objectives that training uses. Read against the paper's own definition of distributional alignment,
similarity *to the model before tuning*, an objective has
- distributional alignment if what it adds to plain SFT's step lowers KL(policy || anchor) in at least 90 % of draws;
- preference alignment if what it adds raises delta (the anchor's favourite against the policy's) in at least 90 % of the draws
  in which the two favourites differ.
SFT adds nothing to itself, so it has neither, unless the definition is about the data. Rules: a row of the table holds if both
marks are as found, in part if one is. 'Active only where outputs differ' holds if PA's gradient is exactly 0 in every draw with
equal favourites and in no other. 'mu_t amplifies' holds if PA's gradient norm and mu_t have a rank correlation above 0.5, in part
above 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.stats import spearmanr
from torch import Tensor

from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.objectives import csft, csft_pa, pa, sft
from holdfast.stats import Estimate, share
from holdfast_studies.papers.study import Claim, Figures, Finding, Machine, OnProgress, Study

NUM_DRAWS = 400
NUM_TOKENS = 6
BETA, PA_WEIGHT = 0.5, 0.3
BAR = 0.9
FIRST = torch.zeros(1, dtype=torch.long)
OBJECTIVES: dict[str, Callable[[TokenStats], Tensor]] = {
    "sft": sft,
    "csft": lambda stats: csft(stats, position=FIRST, beta=BETA),
    "csft_pa": lambda stats: csft_pa(stats, position=FIRST, beta=BETA, pa_weight=PA_WEIGHT),
}
MARKS = {"sft": (True, False), "csft": (True, False), "csft_pa": (True, True)}
"""What the table ticks: (distributional, preference)."""


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Draw by draw: does each objective move towards the anchor (1) or not (0); PA's gradient."""
    nearer, preferred = dict.fromkeys(OBJECTIVES, ""), dict.fromkeys(OBJECTIVES, "")
    pa_draws: list[tuple[bool, float, float]] = []  # do the favourites differ, |gradient|, mu_t
    for seed in range(NUM_DRAWS):
        generator = torch.Generator().manual_seed(seed)
        policy, anchor = 2 * torch.randn(2, 1, NUM_TOKENS, generator=generator, dtype=torch.float64)
        target = torch.randint(NUM_TOKENS, (1,), generator=generator)
        slopes = {name: slope(policy, anchor, target, loss) for name, loss in OBJECTIVES.items()}
        of_kl, of_delta = (
            slope(policy, anchor, target, lambda stats, name=name: stats.need(name))  # type: ignore[misc]
            for name in ("kl", "delta")
        )
        differ = bool(policy.argmax() != anchor.argmax())
        for name, each in slopes.items():
            added = slopes["sft"] - each  # the objective's step beyond SFT's: minus its gradient, plus SFT's
            nearer[name] += str(int((added * of_kl).sum() < 0))
            if differ:
                preferred[name] += str(int((added * of_delta).sum() > 0))
        kl = stats_from_logits(policy, target, Reference(logits=anchor), want=("kl",)).need("kl")
        norm = float(slope(policy, anchor, target, pa).norm())
        pa_draws.append((differ, float(f"{norm:.6g}"), float(f"{float(kl):.6g}")))
        on_progress((seed + 1) / NUM_DRAWS)
    return {"nearer": nearer, "preferred": preferred, "pa": pa_draws}


def slope(policy: Tensor, anchor: Tensor, target: Tensor, loss: Callable[[TokenStats], Tensor]) -> Tensor:
    """The gradient of one token's loss in the policy's logits."""
    logits = policy.clone().requires_grad_()
    want = ("kl", "delta", "top_ref", "logp_ref")
    value = loss(stats_from_logits(logits, target, Reference(logits=anchor), want=want)).sum()
    return torch.autograd.grad(value, logits)[0]


def row_of_the_table(name: str) -> Callable[[Figures], Finding]:
    """The rule for one method: are both marks right?"""

    def judge(figures: Figures) -> Finding:
        nearer, preferred = (share(digit == "1" for digit in figures[key][name]) for key in ("nearer", "preferred"))
        right = sum((rate.value >= BAR) == mark for rate, mark in zip((nearer, preferred), MARKS[name], strict=True))
        found = (
            f"beyond SFT it lowers KL to the anchor in {nearer.value:.0%} of {nearer.n} draws and raises delta in "
            f"{preferred.value:.0%} of the {preferred.n} where favourites differ"
        )
        verdict = ("does not hold", "holds in part", "holds")[right]
        return Finding(verdict, found, Estimate(preferred.value, preferred.low, preferred.high))  # type: ignore[arg-type]

    return judge


def active_where_outputs_differ(figures: Figures) -> Finding:
    """PA's gradient against whether the favourites differ."""
    wrong = sum((norm != 0) != differ for differ, norm, _ in figures["pa"])
    num = len(figures["pa"])
    found = f"PA has a gradient where the favourites differ and none where they agree, in {num - wrong} of {num} draws"
    return Finding("does not hold" if wrong else "holds", found, Estimate(wrong))


def amplified_by_mu(figures: Figures) -> Finding:
    """Judge the rank correlation of mu_t and PA's gradient, where PA is active."""
    active = [(norm, mu) for differ, norm, mu in figures["pa"] if differ]
    rank = float(spearmanr(*zip(*active, strict=True)).statistic)
    found = f"rank correlation of PA's gradient norm with mu_t {rank:.2f} over {len(active)} draws with different favourites"
    return Finding("holds" if rank > 0.5 else "holds in part" if rank > 0 else "does not hold", found, Estimate(rank))


STUDY = Study(
    id="002-table-1",
    paper="002",
    title="Table 1: distributional and preference alignment, tested",
    claims=(
        *(
            Claim(
                id=f"002-table-1-{name.replace('_', '-')}",
                place="Table 1",
                text=f"{words} has distributional alignment{' and' if marks[1] else ' but no'} preference alignment",
                printed=f"distributional {'yes' if marks[0] else 'no'}, preference {'yes' if marks[1] else 'no'}",
                judge=row_of_the_table(name),
            )
            for (name, marks), words in zip(MARKS.items(), ("SFT", "CSFT", "CSFT + PA"), strict=True)
        ),
        Claim(
            id="002-pa-active",
            place="3.2",
            text="PA acts only where policy and anchor would say different tokens",
            printed="stated",
            judge=active_where_outputs_differ,
        ),
        Claim(
            id="002-pa-amplified",
            place="3.2, eq. 6",
            text="the further the policy is from the anchor (mu_t), the larger PA's gradient",
            printed="stated",
            judge=amplified_by_mu,
        ),
    ),
    run=run,
    seconds={"cpu": 10},
    about="mathematics",
    rule="after",
    model="softmax problems",
)
