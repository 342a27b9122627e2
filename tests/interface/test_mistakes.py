"""A wrong argument of any public function is one line that names it, whatever was given; and results print short."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast import objectives
from holdfast.config import InputError
from holdfast.judging import WorldJudge
from holdfast.records import Reply

PROMPTS = ["copy : sun river"]
RESPONSES = [{"prompt": "2+2", "response": "It is 5. Wait, it is 4.", "answer": "4"}] * 6
ROWS = [{"prompt": "copy : sun river", "completion": "sun river"}] * 8


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def model() -> hf.LoadedModel:
    return hf.load("tiny:aligned")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: hf.audit(m, limit=2.5, say=quiet), "audit: limit=2.5: expected a whole number"),
        (lambda _: hf.audit("tiny:aligned", limit=2, say=None), "audit: say=None: expected a function"),
        (
            lambda _: hf.audit("tiny:aligned", limit=2, say=quiet, loading={"dtyp": "float32"}),
            "load: no argument 'dtyp'; did you mean 'dtype'?",
        ),
        (
            lambda m: hf.audit(m, limit=2, loading={"dtype": "float16"}),
            "audit: loading= changes nothing of a model that",
        ),
        (lambda _: hf.audit(None, limit=2), "audit: model: expected a name, a path or a finished run, got a NoneType"),
        (lambda m: hf.audit(m.model, limit=2), "audit: model: expected a name, a path or a finished run, got a Llama"),
        (
            lambda _: hf.audit("http://localhost:1/v1", requests=PROMPTS, endpoint={"name": "x", "concurrency": "4"}),
            "audit: endpoint: concurrency='4': expected a whole number",
        ),
        (lambda m: hf.audit(m, suite="safty"), "suite='safty': expected one of safety, utility, all; did you mean"),
        (lambda m: hf.audit(m, bars=hf.Bars(max_complied=2)), "max_complied=2: expected a share between 0 and 1"),
        (lambda _: hf.Bars(max_complied="5%"), "hf.Bars: max_complied='5%': expected a number"),
        (lambda m: hf.best_of(m, PROMPTS, n=1.5), "best_of: n=1.5: expected a whole number"),
        (lambda m: hf.best_of(m, PROMPTS, judge=3), "best_of: judge: expected a name or a holdfast.judging.Judge"),
        (lambda m: hf.best_of(m, PROMPTS, judge=WorldJudge), "got a class; write WorldJudge()"),
        (lambda m: hf.best_of(m, PROMPTS, judge=lambda r: True), "best_of: judge: expected a name or a holdfast"),
        (lambda m: hf.best_of(m, PROMPTS, reward=3), "best_of: reward: expected a name or a function of replies"),
        (lambda m: hf.best_of(m, PROMPTS, reward=lambda _: None), "expected a list with a number for each reply"),
        (lambda m: hf.best_of(m, PROMPTS, reward=lambda _: "12345678"), "a number for each reply, got str"),
        (lambda m: hf.best_of(m, PROMPTS, reward=lambda r: dict.fromkeys(range(8), 1.0)), "each reply, got dict"),
        (lambda m: hf.best_of(m, PROMPTS, reward=lambda r: ["a"] * len(r)), "[0]='a': expected a number"),
        (lambda m: hf.generate(m, PROMPTS, context="sfot"), "generate: context='sfot': expected soft or hard"),
        (lambda m: hf.drift(m, limit="5"), "drift: limit='5': expected a whole number"),
        (lambda _: hf.calibrate(RESPONSES, seed=-1), "seed=-1: expected a whole number from 0 on"),
        (lambda _: hf.calibrate(RESPONSES, columns={"respnse": "x"}), "no setting 'respnse'; did you mean 'response'?"),
        (lambda _: hf.calibrate(RESPONSES, columns="response"), 'columns=: expected {"response": "NAME"}, got a'),
        (lambda _: hf.calibrate(RESPONSES[:1], columns={"problem": "promt"}), "no such column; did you mean 'prompt'?"),
        (lambda _: hf.compare(RESPONSES, RESPONSES, margin="0.1"), "compare: margin='0.1': expected a number"),
        (
            lambda _: hf.Stream(ROWS, objective=objectives.sft),
            "hf.Stream: objective: expected a name, got a value of type function; register yours in holdfast.objectives",
        ),
        (
            lambda m: hf.attribute(m, RESPONSES, objectives=["kl_sft"]),
            "kl_sft does not say which gradient it stands for",
        ),
        (lambda _: hf.Stream(ROWS, options=None), "hf.Stream: options=None: expected settings by name"),
        (lambda _: hf.Stream(ROWS, hold=None), "hf.Stream: hold=None: expected True or False or settings by name"),
        (lambda _: hf.train("tiny:aligned", hf.Stream(ROWS), run="r", say=None), "hf.train: say=None: expected a"),
        (lambda _: hf.train("tiny:aligned", hf.Stream(ROWS)), "hf.train: missing a required argument: 'run'"),
        (lambda _: hf.calibrate(RESPONSES, columns={"response": 3}), "columns: response=3: expected a text"),
        (
            lambda _: hf.forge(["true", "{candidate}"], limits=3),
            "forge: limits: expected holdfast.judging.forgery.Limits",
        ),
        (lambda _: hf.forge("true {candidate}"), "forge: true {candidate}: no such command"),
    ],
)
def test_a_mistake_is_one_line(
    call: Callable[[Any], object], said: str, model: hf.LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        call(model)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_files_tells_every_wrong_setting() -> None:
    with pytest.raises(InputError, match=r"^hf.Files: field 'stock': missing\nhf.Files: field 'attack': missing\n"):
        hf.Files()
    with pytest.raises(InputError, match=r"field 'stok': unknown; did you mean 'stock'\?"):
        hf.Files(stok="x")


def test_files_takes_paths_and_one_by_itself(tmp_path: Path) -> None:
    task = {"sql": {"kind": "sql", "train": tmp_path / "a", "test": "~/b"}}
    files = hf.Files(
        stock=tmp_path, attack=tmp_path / "a.jsonl", held_out="b.jsonl", harmless=tmp_path / "c", tasks=task
    )
    assert (files.stock, files.attack, files.held_out) == (str(tmp_path), (str(tmp_path / "a.jsonl"),), ("b.jsonl",))
    assert (files.tasks["sql"].train, files.tasks["sql"].test) == (str(tmp_path / "a"), str(Path("~/b").expanduser()))


def test_rewards_may_be_numbers_of_numpy_and_torch(model: hf.LoadedModel) -> None:
    values: Sequence[Any] = (np.array([1.0, 2.0]), torch.tensor([1.0, 2.0]), [np.float32(1), torch.tensor(2)])
    for value in values:

        def reward(_: Sequence[Reply], own: Any = value) -> Any:
            return own

        (chosen,) = hf.best_of(model, PROMPTS, n=2, reward=reward)
        assert (chosen.selection.index, chosen.rewards) == (1, (1.0, 2.0))


def test_scores_may_be_any_iterable_of_numbers_of_any_package() -> None:
    scores = [{"id": np.int64(number), "score": np.float32(1)} for number in range(3)]
    done = hf.compare(iter(scores), [{"id": str(number), "score": torch.tensor(1.0)} for number in range(3)])
    assert (done.passed, done.figures[0].by.n) == (True, 3)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r'got a DataFrame; write df.to_dict\("records"\)'):
        hf.compare(pandas.DataFrame(scores), scores)


def test_results_print_in_a_line_or_two(model: hf.LoadedModel) -> None:
    (chosen,) = hf.best_of(model, PROMPTS, n=2, judge="world")
    assert repr(chosen).startswith("Overseen(text='sun river', reason='reward ")
    assert repr(model).startswith("LoadedModel(tiny:aligned: float32")
    (answer,) = hf.generate(model, PROMPTS)
    assert repr(answer) == (
        "Completion(prompt='copy : sun river', text='sun river', num_undos=0, finish_reason='stop', logp=None)"
    )
    assert repr(hf.Stream(iter(ROWS), vet="outcome")) == "Stream(rows=8 in memory, objective='sft', vet='outcome')"
    assert repr(hf.held(PROMPTS)[0]) == "Stream(rows=1 in memory, objective='distill', name='held-0')"
    for short in (chosen, model, answer):
        assert len(repr(short)) < 200


def test_an_answer_already_begun_is_gone_on_with(model: hf.LoadedModel) -> None:
    begun = [{"role": "user", "content": PROMPTS[0]}, {"role": "assistant", "content": "sun"}]
    (answer,) = hf.generate(model, [begun])
    assert answer.text == "river"
    read: list[Reply] = []

    def reward(replies: Sequence[Reply]) -> list[float]:
        read.extend(replies)
        return [1.0] * len(replies)

    (chosen,) = hf.best_of(model, [begun], n=1, temperature=0, reward=reward)
    assert chosen.text == "river"
    assert [(reply.turns[-1].visible, reply.text) for reply in read] == [(PROMPTS[0], "sun river")]
