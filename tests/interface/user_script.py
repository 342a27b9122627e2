"""What docs/python.md shows, as a user types it: `make check` type-checks it strictly, nothing runs it."""

from collections.abc import Sequence
from pathlib import Path

import holdfast as hf
from holdfast.records import Reply


def mine(answers: Sequence[Reply]) -> list[float]:
    return [float(len(answer.text)) for answer in answers]


def main() -> None:
    rows = [{"prompt": "copy : sun river", "completion": "sun river"}] * 8
    run: hf.TrainResult = hf.train(
        "tiny:aligned",
        [hf.Stream(rows, "sft", vet="refusal_phrases"), *hf.held("safety", "keep")],
        run="runs/small",
        lr=1e-3,
        batch_size=8,
    )
    hf.train("tiny:aligned", hf.Stream(Path("rows.jsonl"), hold=True), run=Path("x"), lora={"rank": 8})
    hf.held(["a", "b"], weight=2, hold={"early": 0.1})
    before = hf.audit("tiny:aligned", limit=20)
    after = hf.audit(run.model, like=before)
    hf.audit(
        run,
        requests=["a"],
        safe_requests=[{"prompt": "b"}],
        judges=["outcome"],
        bars=hf.Bars(max_complied=0.05),
        before="x",
    )
    hf.audit("m", judges="outcome", anchor=hf.load("m", dtype="float32"), endpoint={"name": "x"})
    print(after, after.passed, after.figures["complied (world)"].value)
    print(after.against(before))
    after.save("runs/small")
    card: Path = hf.card("runs/small", before=before)
    comparison: hf.Comparison = hf.compare(before, after, margin=0.1, figures=["x"])
    print(card, comparison.verdict)
    matrix: hf.Matrix = hf.attack(
        attacks=["harmful_examples"], defences=["untouched"], seeds=1, run="runs/matrix", num_requests=10
    )
    estimate = matrix.estimate("harmful_examples", "untouched")
    if estimate is not None:
        print(estimate.value, estimate.low)
    hf.attack(
        run,
        attacks="harmful_examples",
        defences="sft",
        seeds=[0, 1],
        run=Path("m"),
        setting=hf.Files(
            stock="s", attack=["a.jsonl"], held_out=[Path("b")], harmless="c", task_train="d", task_test="e"
        ),
    )
    answers = hf.generate("tiny:aligned", ["copy : sun river"])
    hf.generate("tiny:aligned", "copy : sun river", undo=True, context="hard")
    hf.generate(hf.load("tiny:aligned"), [[{"role": "user", "content": "x"}]])
    hf.generate("tiny:aligned", (text for text in ["a"]))
    chosen: list[hf.Overseen] = hf.best_of("tiny:aligned", ["copy : sun river"], n=4, judge="world", reward=mine)
    hf.best_of("tiny:aligned", "x", reward=lambda replies: [1.0] * len(replies), references=["4"])
    calibration: hf.Calibration = hf.calibrate(
        [{"prompt": "2+2", "response": "4", "answer": "4"}] * 6, columns={"response": "said"}
    )
    drifted: hf.Drifted = hf.drift(run, anchor="tiny:aligned", limit=10)
    attributed: hf.Attributed = hf.attribute("tiny:aligned", "transcripts.jsonl", objectives=["grpo"])
    report: Path = hf.report("runs/small")
    hf.report(run)
    forged: hf.Forgeries = hf.forge(["python", "my_checker.py", "{candidate}", "{test}"])
    print(answers[0].text, chosen[0].text, calibration, drifted, report, attributed, forged.passed, sep="\n")


if __name__ == "__main__":
    main()
