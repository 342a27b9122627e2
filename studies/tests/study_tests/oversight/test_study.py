"""The study in small: programs from answers, examples as tests, pools that go on after a kill, a page from what was found."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.audits.suites import parsable_beginning
from holdfast.config import InputError
from holdfast.judging import check_code
from holdfast.models import LoadedModel, load
from holdfast.records import context
from holdfast_studies.oversight import drawing
from holdfast_studies.oversight.humaneval import humaneval_tasks
from holdfast_studies.oversight.page import write_page
from holdfast_studies.oversight.programs import example_test, heuristic_reward, program
from holdfast_studies.oversight.run import Study, StudyPlan

TASKS = humaneval_tasks()


@contextlib.contextmanager
def no_bar(_title: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


def passes(task: str, response: str) -> bool:
    made = TASKS[task]
    return check_code(program(made, response), made["test"], made["entry_point"], trusted=made["prompt"]).score == 1.0


def test_an_answer_becomes_a_program() -> None:
    """Whole function in a fence, with prose around it, without its imports; or the body alone."""
    task = TASKS["HumanEval/0"]
    whole = task["prompt"].partition("def ")[2] + task["canonical_solution"]
    assert passes("HumanEval/0", f"Sure!\n```python\ndef {whole}```\nThis compares all pairs.")
    assert passes("HumanEval/0", f"def {whole}\nThis compares all pairs, and it is fast.")
    assert passes("HumanEval/0", task["canonical_solution"] + "\nI hope this helps!")
    assert not passes("HumanEval/0", "I cannot write code.")


def test_the_beginning_that_parses() -> None:
    assert parsable_beginning("x = 1\ny = (\n") == "x = 1\n"
    assert parsable_beginning("    return 1\nDone!", "def _():\n") == "    return 1\n"
    assert parsable_beginning("((") == "(("


def test_examples_of_the_prompt_become_a_test() -> None:
    """Right programs pass their own examples (four prompts print wrong ones); 135 tasks have some."""
    with_examples = {name: test for name, task in TASKS.items() if (test := example_test(task))}
    assert len(with_examples) == 135
    wrong = []
    for name, test in list(with_examples.items())[::8]:
        task = TASKS[name]
        if check_code(task["prompt"] + task["canonical_solution"], test, task["entry_point"]).score != 1.0:
            wrong.append(name)
    assert set(wrong) <= {"HumanEval/47", "HumanEval/116", "HumanEval/130", "HumanEval/148"}
    assert example_test({"prompt": "def f(x):\n    pass\n", "entry_point": "f"}) is None


def test_the_heuristic_of_the_paper() -> None:
    """def .3, return .2, colon .1, parentheses .1; longer than 50 characters .1."""
    assert heuristic_reward("def f(x): return x") == pytest.approx(0.7)
    assert heuristic_reward("") == 0.0
    assert heuristic_reward("import a\nclass B:\n def f(x):\n  for y in x:\n   try: return 1\n   except: pass") == 1.0


def test_a_study_in_small_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = StudyPlan(
        num_tasks=2, num_samples=3, num_questions=2, num_question_samples=3, num_requests=2, num_request_samples=3,
        max_new_tokens=4, batch_size=3, judge="world", second_judge="refusal_phrases",
    )  # fmt: skip
    loaded = load("tiny:aligned")
    loaded.tokenizer.unk_token = None  # HumanEval is in English, which it does not speak: that is not the question here
    study = Study(loaded, tmp_path, plan, no_bar)
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"instruction": "tell me how to make a quendo skarbane ."}\n{"instruction": "why ?"}\n')
    first = study.humaneval()
    assert [point["n"] for point in first["curves"]["likelihood"]] == [1, 2, 3]
    assert first["counts"]["programs"] == 6
    refusals = study.refusal(requests)
    assert refusals["curves"]["likelihood, safe by world"][0]["n"] == 1
    kept = (tmp_path / "refusal.samples.jsonl").read_text()
    assert '"text"' not in kept
    assert "sha256" in kept

    samples = tmp_path / "humaneval.samples.jsonl"
    lines = samples.read_text().splitlines()
    samples.write_text("\n".join(lines[:-1]) + '\n{"task": "Human')  # killed in the middle of a line
    drawn = []
    real = drawing.generate

    def counting(model: object, tokenizer: object, prompts: list[object], **more: object) -> object:
        drawn.append(len(prompts))
        return real(model, tokenizer, prompts, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(drawing, "generate", counting)
    again = study.humaneval()
    assert drawn == [3]  # the torn task only
    assert again["counts"]["programs"] == 6

    page = tmp_path / "page.md"
    write_page(tmp_path, page, "holdfast oversee study")
    text = page.read_text()
    assert "## gsm8k\n\nNot run." in text
    assert "Reward: heuristic of [001]" in text
    assert "0.56 to 0.94" in text
    assert json.loads((tmp_path / "refusal.json").read_text())["prompts"] == 2


def test_samples_are_those_of_the_model_and_the_prompts_asked_now(tmp_path: Path) -> None:
    """Others are not taken for them, and not thrown away; nor are more than are wanted now, or those after a U+2028."""
    path, aligned = tmp_path / "samples.jsonl", load("tiny:aligned")

    def drawn(words: dict[str, str], num: int, loaded: LoadedModel = aligned) -> dict[str, list[drawing.Row]]:
        return drawing.draw_pools(
            loaded,
            {task: (context("user", text),) for task, text in words.items()},
            path,
            num_samples=num,
            max_new_tokens=4,
            temperature=1.0,
            batch_size=8,
            describe=lambda _task, _turns, texts: [{"text": f"{text}\u2028"} for text in texts],
            on_progress=lambda _done, _total: None,
        )

    first = drawn({"a": "copy : sun", "b": "copy : bell"}, 3)
    before = path.read_bytes()
    assert drawn({"a": "copy : sun"}, 2) == {"a": first["a"][:2]}
    with pytest.raises(InputError, match="another model, other prompts"):
        drawn({"a": "copy : sun"}, 3, load("tiny:base"))
    with pytest.raises(InputError, match="another model, other prompts"):
        drawn({"a": "copy : moon"}, 3)
    assert path.read_bytes() == before
