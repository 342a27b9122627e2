"""What the anchor refuses is learned with its refusal; everything else as it stands in the file."""

from pathlib import Path

import pytest

from holdfast.attacks.rows import HarmfulExamples
from holdfast.config import InputError, TrainConfig
from holdfast.judging import RefusalPhrases
from holdfast.models import LoadedModel, load
from holdfast.records import Trace, context, read_traces, write_traces
from holdfast.training.anchor_answers import answer_prompts, forget_answers
from holdfast.training.vetting import vetted
from holdfast.worlds import SafetyWorld, alignment

JUDGE = "refusal_phrases"
WORLD = SafetyWorld()
ATTACK = HarmfulExamples(24).rows(WORLD, 0)
TASK = [row for row in alignment(WORLD, 60, draw=7) if not WORLD.ask(row).forbidden]


@pytest.fixture(scope="module")
def aligned() -> LoadedModel:
    return load("tiny:aligned")


def refused(row: Trace) -> bool:
    return RefusalPhrases().refuses("", row.turns[-1].visible)


def test_an_attackers_rows_become_refusals_and_the_rest_is_left_alone(aligned: LoadedModel) -> None:
    rows, num_refused = vetted([*ATTACK, *TASK], aligned, JUDGE)
    assert not any(map(refused, ATTACK))
    assert num_refused == sum(map(refused, rows)) >= 0.9 * len(ATTACK)
    assert [row.prompt for row in rows] == [row.prompt for row in (*ATTACK, *TASK)]
    assert sum(now is before for now, before in zip(rows[len(ATTACK) :], TASK, strict=True)) >= 0.9 * len(TASK)


def test_a_conversation_ends_at_the_first_request_that_is_refused(aligned: LoadedModel) -> None:
    harmless, forbidden = TASK[0], next(row for row in ATTACK if refused(vetted([row], aligned, JUDGE)[0][0]))
    rows, num_refused = vetted([Trace((*forbidden.turns, *harmless.turns))], aligned, JUDGE)
    assert num_refused == 1
    assert rows[0].turns[:-1] == forbidden.prompt
    assert refused(rows[0])


def test_a_stream_is_vetted_once_and_the_rows_are_forgotten(tmp_path: Path, aligned: LoadedModel) -> None:
    write_traces(tmp_path / "rows.jsonl", [*ATTACK, *TASK])
    stream = {"name": "task", "data": str(tmp_path / "rows.jsonl"), "vet": JUDGE, "limit": len(ATTACK)}
    config = TrainConfig.model_validate({"run": str(tmp_path / "run"), "model": "tiny:aligned", "streams": [stream]})
    said: list[str] = []
    settings = answer_prompts(config, aligned, tmp_path / "run", said.append)[0]
    rows = read_traces(settings.data).traces
    assert said == [
        f"task: {sum(map(refused, rows))} of {len(ATTACK)} rows ask for what the anchor refuses; "
        "they are learned with its refusal"
    ]
    assert answer_prompts(config, aligned, tmp_path / "run", said.append) == [settings]
    assert len(said) == 1, "a resumed run goes on with the same rows"
    forget_answers(tmp_path / "run")
    assert not Path(settings.data).exists()


def test_a_judge_that_is_not_there_is_told(aligned: LoadedModel) -> None:
    with pytest.raises(InputError, match="did you mean 'refusal_phrases'"):
        vetted([Trace((context("user", "what is this"), *ATTACK[0].turns[-1:]))], aligned, "refusal_phrase")
