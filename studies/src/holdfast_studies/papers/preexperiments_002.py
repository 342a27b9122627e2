"""[002] Pre-experiments 1 and 2: do a small LSTM and a larger one agree better when the preference loss is added?

The paper names neither data nor sizes. Fixed here, before any run: token sequences of the embedded safety world (word-level, its
pretraining mix; 1,500 to train on, 400 held out, cut at 32 tokens), Adam at 3e-3, batches of 64, 12 epochs, 5 seeds (a seed
draws data, initialisation and order).
Experiment 1: policy LSTM + one linear layer; anchor LSTM + residual fully connected layers, about twice the parameters, trained
first by cross-entropy. The second group is read both ways (MATH §7): PA alone, and cross-entropy + PA.
Experiment 2: policy 2-layer LSTM with a width-preserving layer, anchor 3-layer LSTM with expanded layers; csft against csft + PA
with the paper's delta schedule; beta at the schedule of Qi et al.
Measured on held-out tokens after every epoch (MATH §7): KL(policy || anchor), mean |p(y) - q(y)|, cosine, Pearson, overlap,
exp(-KL). Rules for the ends: a direction holds if Student's interval of the paired difference lies on the claimed side of 0 (in
part for one of two readings); a printed percentage holds if the interval of the relative change contains it. Experiment 2 does
not hold if the interval lies on the other side; one that has 0 needs more seeds (changed on 2026-11-16, when two such rows had
turned round on another machine, where the same seeds round otherwise). A baseline whose KL to the anchor is below 1e-3 has
nothing to gain, and nothing is judged against it (added 2026-11-16).
Rule for the curves (Figures 1 to 4, whose points are not printed): holds if at every epoch, for every measure of the figure, the
interval of the paired difference lies on the claimed side of 0; in part if it does at some epoch and lies on the other side at
none; else it does not hold. Of experiment 1's two readings the better one counts. Written on 2026-11-16, before the curves were
made and after their ends had been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.objectives import csft, csft_pa, pa, pa_weight_at, sft
from holdfast.stats import Estimate, student
from holdfast.worlds import SafetyWorld, build_tokenizer, pretraining
from holdfast_studies.papers.study import (
    VERDICTS,
    Claim,
    ClaimVerdict,
    Figures,
    Finding,
    Machine,
    OnProgress,
    Study,
    needed,
)

NUM_SEEDS = 5
NUM_TRAIN, NUM_TEST, LENGTH = 1500, 400, 32
EPOCHS, BATCH, LR = 12, 64, 3e-3
WIDTH = 64
PAD = -100
TokenLoss = Callable[[TokenStats, Tensor, float], Tensor]
"""(statistics, position, epoch) -> loss of every token."""


class Residual(nn.Module):
    """x + a fully connected layer of it."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        """Add the layer's output to its input."""
        return x + self.layers(x)  # type: ignore[no-any-return]


class LstmModel(nn.Module):
    """Embedding, LSTM, some layers, logits."""

    def __init__(self, num_tokens: int, layers: int, between: Sequence[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(num_tokens, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, layers, batch_first=True)
        self.head = nn.Sequential(*between, nn.Linear(WIDTH, num_tokens))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token."""
        return self.head(self.lstm(self.embed(ids))[0])  # type: ignore[no-any-return]


def policy_1(num_tokens: int) -> LstmModel:
    """Experiment 1's policy: a single fully connected layer."""
    return LstmModel(num_tokens, 1, ())


def anchor_1(num_tokens: int) -> LstmModel:
    """Experiment 1's anchor: several fully connected layers with residual connections."""
    return LstmModel(
        num_tokens, 1, (Residual(WIDTH, 2 * WIDTH), Residual(WIDTH, 2 * WIDTH), Residual(WIDTH, 2 * WIDTH))
    )


def policy_2(num_tokens: int) -> LstmModel:
    """Experiment 2's policy: two LSTM layers and a layer that keeps the width."""
    return LstmModel(num_tokens, 2, (nn.Linear(WIDTH, WIDTH), nn.ReLU()))


def anchor_2(num_tokens: int) -> LstmModel:
    """Experiment 2's anchor: three LSTM layers and layers that widen."""
    return LstmModel(num_tokens, 3, (nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)))


GROUPS: dict[str, tuple[Callable[[int], LstmModel], Callable[[int], LstmModel], TokenLoss]] = {
    "1 cross-entropy": (policy_1, anchor_1, lambda stats, position, epoch: sft(stats)),
    "1 pa": (policy_1, anchor_1, lambda stats, position, epoch: pa(stats)),
    "1 cross-entropy + pa": (policy_1, anchor_1, lambda stats, position, epoch: sft(stats) + pa(stats)),
    "2 csft": (policy_2, anchor_2, lambda stats, position, epoch: csft(stats, position=position)),
    "2 csft + pa": (
        policy_2,
        anchor_2,
        lambda stats, position, epoch: csft_pa(stats, position=position, pa_weight=pa_weight_at(epoch, EPOCHS)),
    ),
}


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """Every group's measures, seed by seed and epoch by epoch; ``groups`` has the ends."""
    curves: dict[str, list[dict[str, list[float]]]] = {name: [] for name in GROUPS}
    done = 0
    for seed in range(NUM_SEEDS):
        train, test, num_tokens = sequences(seed)
        anchors: dict[Callable[[int], LstmModel], LstmModel] = {}
        for name, (make_policy, make_anchor, loss) in GROUPS.items():
            if make_anchor not in anchors:
                anchors[make_anchor] = fitted(make_anchor, None, train, num_tokens, seed, lambda stats, *_: sft(stats))
            epochs: list[dict[str, float]] = []

            def measure(model: LstmModel, anchor: LstmModel = anchors[make_anchor]) -> None:
                epochs.append(agreement(model, anchor, test))  # noqa: B023 (called before the loop goes on)

            fitted(make_policy, anchors[make_anchor], train, num_tokens, seed + 100, loss, measure)
            curves[name].append({key: [epoch[key] for epoch in epochs] for key in epochs[0]})
            done += 1
            on_progress(done / (NUM_SEEDS * len(GROUPS)))
    ends = {name: [{key: of[-1] for key, of in seed.items()} for seed in seeds] for name, seeds in curves.items()}
    return {"groups": ends, "curves": curves}


def sequences(seed: int) -> tuple[Tensor, Tensor, int]:
    """Train and test ids [rows, LENGTH], padded with PAD."""
    tokenizer = build_tokenizer()
    rows = pretraining(SafetyWorld(), NUM_TRAIN + NUM_TEST, draw=seed + 1)
    texts = [" ".join(turn.visible for turn in row.turns) for row in rows]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"][:LENGTH] for text in texts]
    padded = torch.tensor([row + [PAD] * (LENGTH - len(row)) for row in ids])
    return padded[:NUM_TRAIN], padded[NUM_TRAIN:], len(tokenizer)


def fitted(
    make: Callable[[int], LstmModel],
    anchor: LstmModel | None,
    train: Tensor,
    num_tokens: int,
    seed: int,
    loss: TokenLoss,
    on_epoch: Callable[[LstmModel], None] = lambda model: None,
) -> LstmModel:
    """A model trained from nothing; ``on_epoch`` sees it after every epoch."""
    torch.manual_seed(seed)
    model = make(num_tokens)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(train)).split(BATCH):
            stats, position = token_statistics(model, anchor, train[rows])
            optimizer.zero_grad()
            loss(stats, position, epoch).mean().backward()
            optimizer.step()
        on_epoch(model.eval())
        model.train()
    return model.eval()


def token_statistics(model: LstmModel, anchor: LstmModel | None, ids: Tensor) -> tuple[TokenStats, Tensor]:
    """The statistics of every next token, and its position in the sequence."""
    inputs, targets = ids[:, :-1].clamp(min=0), ids[:, 1:]
    real = targets != PAD
    reference = None
    if anchor is not None:
        with torch.no_grad():
            reference = Reference(logits=anchor(inputs)[real])
    position = torch.arange(inputs.shape[1]).expand_as(inputs)[real]
    return stats_from_logits(model(inputs)[real], targets[real], reference), position


@torch.no_grad()
def agreement(model: LstmModel, anchor: LstmModel, ids: Tensor) -> dict[str, float]:
    """Every measure of MATH §7, averaged over tokens."""
    inputs, targets = ids[:, :-1].clamp(min=0), ids[:, 1:]
    real = targets != PAD
    p, q = (each(inputs)[real].double().softmax(-1) for each in (model, anchor))
    at = targets[real][:, None]
    kl = (p * (p.log() - q.log())).sum(-1)
    centred_p, centred_q = p - p.mean(-1, keepdim=True), q - q.mean(-1, keepdim=True)
    measures = {
        "kl": kl,
        "gap": (p.gather(1, at) - q.gather(1, at)).abs(),
        "cosine": torch.cosine_similarity(p, q),
        "pearson": torch.cosine_similarity(centred_p, centred_q),
        "overlap": torch.minimum(p, q).sum(-1),
        "kl_similarity": (-kl).exp(),
    }
    return {name: float(values.mean()) for name, values in measures.items()}


def relative_fall(figures: Figures, measure: str, group: str, base: str) -> Estimate:
    """1 - group / base in per cent, seed by seed."""
    pairs = zip(figures["groups"][group], figures["groups"][base], strict=True)
    return student([100 * (1 - new[measure] / old[measure]) for new, old in pairs])


def at_anchor(figures: Figures, group: str) -> bool:
    """Whether a group is so near the anchor that nothing is left to gain."""
    return all(seed["kl"] < 1e-3 for seed in figures["groups"][group])


def falls_by(measure: str, printed: float) -> Callable[[Figures], Finding]:
    """Experiment 1: the fall under both readings of the second group, beside the printed percentage."""

    def judge(figures: Figures) -> Finding:
        if at_anchor(figures, "1 cross-entropy"):
            return needed("a baseline that is not at the anchor already")
        readings = {
            name: relative_fall(figures, measure, f"1 {name}", "1 cross-entropy")
            for name in ("pa", "cross-entropy + pa")
        }
        found = "; ".join(f"{name}: {m.value:+.1f} % [{m.low:.1f}, {m.high:.1f}]" for name, m in readings.items())
        falls = [each.above(0) for each in readings.values()]
        as_printed = [each.contains(printed) for each in readings.values()]
        verdict = "holds" if any(as_printed) else "holds in part" if any(falls) else "does not hold"
        best = max(readings.values(), key=lambda each: each.value)
        means = {name: student([seed[measure] for seed in seeds]).value for name, seeds in figures["groups"].items()}
        values = ", ".join(f"{name[2:]} {mean:.4g}" for name, mean in means.items() if name.startswith("1 "))
        return Finding(verdict, f"{values}; fall against cross-entropy: {found}", best)  # type: ignore[arg-type]

    return judge


def better_by(measure: str, sign: int) -> Callable[[Figures], Finding]:
    """Experiment 2: csft + pa minus csft, seed by seed; ``sign`` +1 where more is better."""

    def judge(figures: Figures) -> Finding:
        if at_anchor(figures, "2 csft"):
            return needed("a baseline that is not at the anchor already")
        pairs = zip(figures["groups"]["2 csft + pa"], figures["groups"]["2 csft"], strict=True)
        difference = student([new[measure] - old[measure] for new, old in pairs])
        better = difference.above(0) if sign > 0 else difference.below(0)
        found = f"csft + pa minus csft: {difference:+.4f}"
        if difference.contains(0):
            return needed(f"more than {difference.n} seeds; {found}")
        return Finding("holds" if better else "does not hold", found, difference)

    return judge


class Curve(NamedTuple):
    """How one group's curve lies beside another's."""

    measure: str
    num_right: int  # epochs at which it lies on the claimed side, beyond chance
    num_wrong: int  # epochs at which it lies on the other side, beyond chance
    means: tuple[float, ...]  # of the difference, epoch by epoch

    def __str__(self) -> str:
        num = len(self.means)
        first, middle, last = (f"{self.means[at]:+.3g}" for at in (0, num // 2 - 1, -1))
        return (
            f"{self.measure} at {self.num_right} of {num} epochs, the reverse at {self.num_wrong} "
            f"(difference {first} after the first, {middle} after half, {last} after all)"
        )


def curve(figures: Figures, measure: str, sign: int, group: str, base: str) -> Curve:
    """``group`` against ``base`` at every epoch; ``sign`` +1 where more is better."""
    pairs = list(zip(figures["curves"][group], figures["curves"][base], strict=True))
    num = len(pairs[0][0][measure])
    changes = [student([new[measure][at] - old[measure][at] for new, old in pairs]) for at in range(num)]
    up, down = sum(change.above(0) for change in changes), sum(change.below(0) for change in changes)
    right, wrong = (up, down) if sign > 0 else (down, up)
    return Curve(measure.replace("_", " "), right, wrong, tuple(change.value for change in changes))


def curves_apart(signs: Mapping[str, int], groups: Sequence[str], base: str) -> Callable[[Figures], Finding]:
    """Whether a figure's curves lie apart as claimed: ``signs`` by measure; of several ``groups`` the best counts."""

    def judge(figures: Figures) -> Finding:
        if at_anchor(figures, base):
            return needed("a baseline that is not at the anchor already")
        readings = {
            group: [curve(figures, name, sign, group, base) for name, sign in signs.items()] for group in groups
        }
        best = min((_curve_verdict(curves) for curves in readings.values()), key=VERDICTS.index)
        words = "; ".join(f"{group[2:]}: {', '.join(map(str, curves))}" for group, curves in readings.items())
        share = max(sum(each.num_right / len(each.means) for each in of) / len(of) for of in readings.values())
        return Finding(best, f"on the better side beyond chance: {words}", Estimate(share, n=NUM_SEEDS))

    return judge


def _curve_verdict(curves: Sequence[Curve]) -> ClaimVerdict:
    if all(each.num_right == len(each.means) for each in curves):
        return "holds"
    if any(each.num_right for each in curves) and not any(each.num_wrong for each in curves):
        return "holds in part"
    return "does not hold"


def _claim_2(measure: str, place: str, sign: int) -> Claim:
    more = "higher" if sign > 0 else "lower"
    return Claim(
        id=f"002-pre-2-{measure.replace('_', '-')}",
        place=place,
        text=f"csft + PA brings the policy nearer to a larger LSTM than csft alone: {measure.replace('_', ' ')} is {more}",
        printed=f"{more} (curves only)",
        judge=better_by(measure, sign),
        rule="changed",
    )


def _curves(figure: str, place: str, signs: Mapping[str, int], groups: Sequence[str], base: str) -> Claim:
    """The claim of one of the paper's figures."""
    names = " and ".join(name.replace("_", " ") for name in signs)
    second = "PA" if figure == "1" else "csft + PA"
    return Claim(
        id=f"002-figure-{figure}-curves",
        place=place,
        text=f"{second} lies on the better side of {base[2:]} at every epoch: {names}",
        printed="curves only",
        judge=curves_apart(signs, groups, base),
        rule="after",
    )


STUDY = Study(
    id="002-preexperiments",
    paper="002",
    title="Pre-experiments 1 and 2: small LSTMs against larger ones",
    claims=(
        Claim(
            id="002-pre-1-kl",
            place="5.1, Table 2, Fig. 1",
            text="training with PA lowers the KL divergence to a larger anchor of another architecture",
            printed="1.4575 -> 0.2562: -82.4 %",
            judge=falls_by("kl", 82.4),
            rule="changed",
        ),
        Claim(
            id="002-pre-1-gap",
            place="5.1, Table 2, Fig. 1",
            text="training with PA lowers the per-token difference of probabilities",
            printed="0.0169 -> 0.0051: -69.8 %",
            judge=falls_by("gap", 69.8),
            rule="changed",
        ),
        _claim_2("cosine", "5.2, Fig. 2", +1),
        _claim_2("pearson", "5.2, Fig. 2", +1),
        _claim_2("overlap", "5.2, Fig. 3", +1),
        _claim_2("kl_similarity", "5.2, Fig. 3", +1),
        _claim_2("kl", "5.2, Fig. 4", -1),
        _curves("1", "5.1, Fig. 1", {"kl": -1, "gap": -1}, ("1 pa", "1 cross-entropy + pa"), "1 cross-entropy"),
        _curves("2", "5.2, Fig. 2", {"cosine": +1, "pearson": +1}, ("2 csft + pa",), "2 csft"),
        _curves("3", "5.2, Fig. 3", {"overlap": +1, "kl_similarity": +1}, ("2 csft + pa",), "2 csft"),
        _curves("4", "5.2, Fig. 4", {"kl": -1}, ("2 csft + pa",), "2 csft"),
    ),
    run=run,
    seconds={"cpu": 400},
    model="LSTMs",
)
