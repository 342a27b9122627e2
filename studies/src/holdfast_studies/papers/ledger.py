"""docs/papers.md: a row for every claim, made from the figures that the studies left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.data import atomic_text
from holdfast.stats import Estimate
from holdfast_studies.markdown import table
from holdfast_studies.papers.figure_files import Kept
from holdfast_studies.papers.running import rows_of
from holdfast_studies.papers.study import VERDICTS, Study, StudyRow

PAPERS = {
    "000": "Proof of Safety Gap Theorem (manuscript): SFT against masked SFT on traces with `<UNDO>`",
    "001": "Mathematical Reconciliation: Empirical Results vs. Toy Setup (manuscript): best-of-n with a safety filter",
    "002": "Robust Safety Guarantee for Large Language Models via Preference-Augmented Distributional Alignment (under review)",
    "004": "The Two-Stage Decision-Sampling Hypothesis (arXiv:2601.01580): self-reflection in RL-trained language models",
}
REMARKS = {
    "001": """On SmolLM2 *unsafe by the phrase list* means: a reply without a refusal phrase. It may comply with the request, or
be nonsense; the two were not told apart when these pools were judged. The simulated rows have no such doubt.""",
    "002": """To be run again: the cells on SmolLM2 count every reply without a refusal phrase as an attack that succeeded,
and were trained without Qi et al.'s whole recipe (10 warm-up steps, Adam's beta1 0.5, w_t floored at 1e-3).
Their rows have neither figures nor a verdict until `studies/configs/smollm2/tables.yaml` has run, which
judges by outcome (`refused`, `missed`, `complied`). `002-tables-qwen` has both tables by outcome and with the
whole recipe on another model, from one or two seeds and without csft. `002-table-3` and `002-table-4` train with the
whole recipe; the ablations have the published losses and this matrix's optimiser. The rows of the summaries
in `002-table-4`, which stand in for SAMSum, are ours.""",
    "004": """To be run again: the GRPO models behind `004-table-1`, `004-figure-1` (all but its row on SFT) and `004-cited`
(out of distribution, structure) were trained with TRL 1.16's KL at its defaults. Its gradient is that of
KL(policy ‖ reference), now `kl: loss_k3_ratio`, not that of the paper's low_var_kl (`kl: loss_k3`). The
weight was 0.001. In the study on a GPU each of four updates was also divided by the mean number of tokens of
the four.""",
}
"""What a reader must know of a paper's rows until they have been run again."""
ABOUT = {"mathematics": "mathematics (theorems, identities, worked examples)", "experiments": "experiments"}
RULES = {"before": "before", "changed": "changed", "after": "after"}
HEAD = """# Papers: the ledger

What four papers claim, and what we found when we ran it: one row per claim. A row tells you what is printed, what we
measured, and by which command you can measure it yourself. The page is written by

    holdfast reproduce all --stored docs/results/papers --write docs/papers.md

Nothing here is typed in by hand: a verdict comes from the stored figures by a rule that stands in the study's file
(`studies/src/holdfast_studies/papers/`). Not every rule was written before its figures were seen; the column *rule* says
which:

- *before*: the rule was committed before the study's first run and has not been changed since;
- *changed*: it was committed before, and changed after figures had been seen; the study's file and the [lab
  log](lab-log.md) say how;
- *after*: it was written, or first committed, when figures had been seen.

Verdicts: *holds*; *holds in part* (the row says where); *does not hold*; *not testable here* (the row says what would be
needed). A comparison whose arms are degenerate is not testable: 0 % against 0 %, an opponent that did not learn its own
training rows, a figure at its floor. *Erratum* marks a slip of the paper that the row shows by a number; each was derived
again from the paper's text alone, and the [lab log](lab-log.md) tells where that did not agree with our row. Where
`printed` is "not in the paper", the row is ours. Intervals are 95 %. Qi et al. 2024, whose constrained SFT [002] builds on,
is cited by name. How each method is implemented: [objectives.md](objectives.md).
"""

LACKS = """## What it lacks

- The GPU study behind `004-table-1` and `004-figure-1` is left out of every comparison: its training sizes were not
  evaluated, its SFT models score 0 % and GRPO ends below its base. What is left are models of a quarter of a million parameters.
- [002]'s cells on SmolLM2 also keep exact match where Qi et al.'s code scores SQL by ROUGE-1.
  `studies/configs/smollm2/tables.yaml` has it right.
- Ablations have five seeds, and seeds differ much: under `harmful_examples` one change is -68 points in one training and -1 in
  the next. Two of the seven give no verdict for that.
- Figures 1 to 4 of [002] are compared epoch by epoch, on LSTMs and data of ours: the paper names neither sizes nor data, and
  prints no points.
- SAMSum is replaced by 500 short dialogues made by a grammar of ours in the embedded world's words.
- [002]'s assumption 7 (label smoothing, clipped logits) was tried on softmax regressions. The objectives have neither as an
  option.
- [001]'s claims are judged on SmolLM2 by a phrase list and a learned judge; `outcome` was not asked, and the replies are not in
  the repository.
- `004-cited-structure` needs a control, SFT on the model's own right responses. `studies/configs/checking/qwen.yaml` has it and
  has not been run.
- SmolLM2's gradient attribution is one seed and one batch.
"""


def write_ledger(path: Path, studies: Sequence[Study], kept: dict[str, Kept]) -> None:
    """The whole page."""
    rows = [row for study in studies for row in rows_of(study, kept.get(study.id))]
    numbers = [number for number in PAPERS if any(row.paper == number for row in rows)]
    with atomic_text(path) as file:
        file.write(
            "\n".join(
                [HEAD, _summary(rows), *(_paper(number, rows) for number in numbers), LACKS, _runs(studies, kept)]
            )
        )


def _summary(rows: Sequence[StudyRow]) -> str:
    """Verdicts by what a claim is about, by model and by when the rule was written."""
    errata = sum(row.erratum for row in rows)
    models = sorted({row.model for row in rows}, key=lambda model: (-sum(row.model == model for row in rows), model))
    return "\n".join(
        [
            f"{len(rows)} claims; {errata} rows are errata.",
            "",
            _counts("claims about", ABOUT, rows, lambda row: row.about),
            "",
            "What was run:",
            "",
            _counts("model", {model: model for model in models}, rows, lambda row: row.model),
            "",
            "When the rule was written:",
            "",
            _counts("rule", RULES, rows, lambda row: row.rule),
            "",
        ]
    )


def _counts(head: str, names: Mapping[str, str], rows: Sequence[StudyRow], of: Callable[[StudyRow], str]) -> str:
    """A table: one line per group, one column per verdict."""
    groups = {name: [row.verdict for row in rows if of(row) == key] for key, name in names.items()}
    counts = (
        [name, str(len(group)), *(str(group.count(verdict)) for verdict in VERDICTS)] for name, group in groups.items()
    )
    return _table([head, "rows", *VERDICTS], counts)


def _paper(number: str, rows: Sequence[StudyRow]) -> str:
    head = ("id", "claim", "where", "printed", "found", "measured", "verdict", "model", "rule", "command")
    remark = [REMARKS[number], ""] if number in REMARKS else []
    lines = []
    for row in rows:
        if row.paper == number:
            verdict = f"**{row.verdict}**" + (" (erratum)" if row.erratum else "")
            words = [row.id, row.claim, row.place, row.printed, row.found, _figure(row.measured), verdict]
            lines.append([*words, row.model, row.rule, f"`{row.command}`"])
    return "\n".join([f"## [{number}]", "", PAPERS[number], "", *remark, _table(head, lines), ""])


def _runs(studies: Sequence[Study], kept: dict[str, Kept]) -> str:
    head = ("study", "what", "claims", "scale", "run on", "holdfast", "seconds (beside other work)")
    lines = []
    for study in studies:
        run = kept.get(study.id)
        if run is None:
            ran = ("", "not yet" if study.seconds else "cannot be run", "", "")
        else:
            ran = (run.scale, run.date, run.version, f"{run.seconds:.0f}")
        lines.append([f"`{study.id}`", study.title, str(len(study.claims)), *ran])
    return "\n".join(["## What ran", "", _table(head, lines), ""])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of sentences. A bar would end a cell, and [b](c) would be read as a link."""
    escaped = ([re.sub(r"\](?=\()", "] ", cell.replace("|", "\\|")) for cell in row] for row in rows)
    return table(head, escaped, tight=True)


def _figure(measured: Estimate | None) -> str:
    if measured is None:
        return ""
    seeds = f", {measured.n} seeds" if measured.n > 1 else ""
    return f"{measured:.4g}{seeds}"
