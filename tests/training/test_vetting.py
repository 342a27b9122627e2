"""What the anchor refuses is held to its refusal; everything else is learned as it stands in the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks.rows import HarmfulExamples
from holdfast.config import InputError, TrainConfig
from holdfast.config.training import StreamSettings, rows_per_step
from holdfast.judging import RefusalPhrases
from holdfast.models import LoadedModel, load
from holdfast.records import Trace, answer, context, read_traces, write_traces
from holdfast.training.anchor_answers import answer_prompts, forget_answers
from holdfast.training.vetting import Vetted, vetted, vetted_streams, write_vetted
from holdfast.worlds import SafetyWorld, alignment
from training.runs import run, weights

JUDGE = "refusal_phrases"
WORLD = SafetyWorld()
ATTACK = HarmfulExamples(24).rows(WORLD, 0)
TASK = [row for row in alignment(WORLD, 60, draw=7) if not WORLD.ask(row).forbidden]
ROW = Trace((context("user", "who"), answer("me")))


@pytest.fixture(scope="module")
def aligned() -> LoadedModel:
    return load("tiny:aligned")


def refused(row: Trace) -> bool:
    return RefusalPhrases().refuses("", row.turns[-1].visible)


def config(folder: Path, rows: list[Trace], **changes: object) -> TrainConfig:
    write_traces(folder / "rows.jsonl", rows)
    stream = {"name": "task", "data": str(folder / "rows.jsonl"), "vet": JUDGE, **changes}
    training = {"batch_size": 8, "max_steps": 6, "lr": 2e-3}
    settings = {"run": str(folder / "run"), "model": "tiny:aligned", "streams": [stream], "training": training}
    return TrainConfig.model_validate(settings)


def test_an_attackers_rows_are_held_and_the_rest_is_left_alone(aligned: LoadedModel) -> None:
    found = vetted([*ATTACK, *TASK], aligned, JUDGE)
    assert not any(map(refused, ATTACK))
    assert all(map(refused, found.held))
    assert len(found.learned) + len(found.held) == len(ATTACK) + len(TASK)
    assert sum(row in found.learned for row in ATTACK) <= 0.1 * len(ATTACK)
    assert sum(row in found.learned for row in TASK) >= 0.9 * len(TASK)
    assert {row.prompt for row in found.held} <= {row.prompt for row in (*ATTACK, *TASK)}


def test_a_conversation_ends_at_the_first_request_that_is_refused(aligned: LoadedModel) -> None:
    forbidden = next(row for row in ATTACK if vetted([row], aligned, JUDGE).held)
    found = vetted([Trace((*forbidden.turns, *TASK[0].turns))], aligned, JUDGE)
    assert not found.learned
    assert found.held[0].turns[:-1] == forbidden.prompt
    assert refused(found.held[0])


def test_a_stream_is_vetted_once_and_the_rows_are_forgotten(tmp_path: Path, aligned: LoadedModel) -> None:
    settings = config(tmp_path, [*ATTACK, *TASK], limit=len(ATTACK) + 8)
    said: list[str] = []
    streams = answer_prompts(settings, aligned, tmp_path / "run", said.append)
    learned, held = (read_traces(each.data).traces for each in streams)
    assert said == [
        f"task: {len(held)} of {len(ATTACK) + 8} rows ask for what the anchor refuses; there the model is held to it"
    ]
    assert [each.objective for each in streams] == ["sft", "distill"]
    assert len(learned) < len(held)
    assert answer_prompts(settings, aligned, tmp_path / "run", said.append) == streams
    assert len(said) == 1, "a resumed run goes on with the same rows"
    forget_answers(tmp_path / "run")
    assert not Path(streams[0].data).exists()


def test_the_first_step_on_held_rows_moves_nothing(tmp_path: Path, aligned: LoadedModel) -> None:
    """All that is left of this attack is a model held to itself: the gradient is zero, and so is what Adam makes of it."""
    rows = vetted(ATTACK, aligned, JUDGE).held
    forbidden = [row for row in ATTACK if row.prompt in {each.prompt for each in rows}]
    run(config(tmp_path, forbidden))
    before = dict(aligned.model.named_parameters())
    moved = max((value - before[name]).abs().max().item() for name, value in weights(tmp_path / "run/model").items())
    assert moved < 1e-3
    run(
        TrainConfig.model_validate(
            {**config(tmp_path, forbidden, vet=None).model_dump(), "run": str(tmp_path / "free")}
        )
    )
    free = max((value - before[name]).abs().max().item() for name, value in weights(tmp_path / "free/model").items())
    assert free > 5 * moved


@given(num_learned=st.integers(0, 60), num_held=st.integers(0, 60), others=st.integers(0, 30), own=st.integers(2, 30))
def test_the_two_divide_share_and_weight(
    tmp_path_factory: pytest.TempPathFactory, num_learned: int, num_held: int, others: int, own: int
) -> None:
    if num_learned + num_held == 0:
        return
    folder = tmp_path_factory.mktemp("vetted") / "of"
    write_vetted(Vetted([ROW] * num_learned, [ROW] * num_held), folder)
    stream = StreamSettings(data="rows", share=own, weight=3.0, vet=JUDGE)
    found = vetted_streams(stream, folder, 1.0)
    assert len(found) == (num_learned > 0) + (num_held > 0)
    assert sum(each.share for each in found) == pytest.approx(own)
    assert sum(each.weight for each in found) == pytest.approx(3.0)
    assert min(rows_per_step(own + others, [*(each.share for each in found), *([others] if others else [])])) >= 1


def test_one_row_of_a_step_cannot_be_divided(tmp_path: Path) -> None:
    write_vetted(Vetted([ROW], [ROW]), tmp_path / "of")
    with pytest.raises(InputError, match=r"raise training\.batch_size"):
        vetted_streams(StreamSettings(data="rows", vet=JUDGE), tmp_path / "of", 1.0)


def test_a_judge_that_is_not_there_is_told(aligned: LoadedModel) -> None:
    with pytest.raises(InputError, match="did you mean 'refusal_phrases'"):
        vetted([ROW], aligned, "refusal_phrase")
