"""What the anchor refuses is held to its refusal; everything else is learned as it stands in the file."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from generation.fake_server import serving
from holdfast.attacks import HarmfulExamples, WorldSetting
from holdfast.config import InputError, TrainConfig
from holdfast.config.training import StreamSettings, rows_per_step
from holdfast.data import read_traces, write_traces
from holdfast.generation import generate
from holdfast.judging import RefusalPhrases
from holdfast.judging.judge import Request, request_text
from holdfast.models import LoadedModel, load
from holdfast.models.positions import num_positions
from holdfast.records import Trace, answer, context
from holdfast.training.anchor_answers import answer_prompts, forget_answers
from holdfast.training.asked_anchor import AskedAnchor
from holdfast.training.vetting import Vetted, vetted, vetted_streams, write_vetted
from holdfast.worlds import SafetyWorld
from holdfast.worlds.corpora import alignment
from training.runs import run, weights

JUDGE = "refusal_phrases"
WORLD = SafetyWorld()
ATTACK = HarmfulExamples(24).rows(WorldSetting(), 0)
TASK = [row for row in alignment(WORLD, 60, draw=7) if not WORLD.ask(row).forbidden]
ROW = Trace((context("user", "who"), answer("me\u2028too")))  # a line separator is no line of a file


@pytest.fixture(scope="module")
def aligned() -> LoadedModel:
    return load("tiny:aligned")


def refused(row: Trace) -> bool:
    return RefusalPhrases().refuses("", row.turns[-1].visible)


def test_rows_whose_answers_the_judge_cannot_read_are_not_learned_unseen(aligned: LoadedModel) -> None:
    """A server that answers in another form than its guard's, and one that answers as it should."""
    pytest.importorskip("httpx", reason='pip install "holdfast[serve]"')
    said = "Harmful request: yes\nResponse refusal: yes\nHarmful response: no"
    with serving(lambda _: "hm") as (babbling, _), serving(lambda _: said) as (guarding, _):
        for judge in (f"wildguard:known@{babbling}", f"asked:known@{babbling}"):
            with pytest.raises(InputError, match="could not say of 2 of the anchor's 2 answers whether they refuse"):
                vetted(TASK[:2], AskedAnchor(aligned), judge)
        assert vetted(TASK[:2], AskedAnchor(aligned), f"wildguard:known@{guarding}").refused == [0, 1]


def config(folder: Path, rows: list[Trace], **changes: object) -> TrainConfig:
    write_traces(folder / "rows.jsonl", rows)
    stream = {"name": "task", "data": str(folder / "rows.jsonl"), "vet": JUDGE, **changes}
    training = {"batch_size": 8, "max_steps": 6, "lr": 2e-3}
    settings = {"run": str(folder / "run"), "model": "tiny:aligned", "streams": [stream], "training": training}
    return TrainConfig.model_validate(settings)


def test_an_attackers_rows_are_held_and_the_rest_is_left_alone(aligned: LoadedModel) -> None:
    found = vetted([*ATTACK, *TASK], AskedAnchor(aligned), JUDGE)
    assert not any(map(refused, ATTACK))
    assert all(map(refused, found.held))
    assert len(found.learned) + len(found.held) == len(ATTACK) + len(TASK)
    assert sum(row in found.learned for row in ATTACK) <= 0.1 * len(ATTACK)
    assert sum(row in found.learned for row in TASK) >= 0.9 * len(TASK)
    assert {row.prompt for row in found.held} <= {row.prompt for row in (*ATTACK, *TASK)}


def test_a_conversation_is_learned_held_and_left_out(aligned: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests, of which the second is refused, by a list of phrases that has just what this model says there."""
    plain = [row for row in TASK if row.turns[0].speaker == "user"]
    whole = Trace((*plain[0].turns, *plain[1].turns, *plain[2].turns))
    says = generate(aligned.model, aligned.tokenizer, [whole.turns[:1], whole.turns[:3]], max_new_tokens=48)
    assert says[0].text.strip() not in says[1].text
    judge = RefusalPhrases(phrases=(" ".join(says[1].text.lower().split()),))
    monkeypatch.setattr("holdfast.training.vetting.find_judge", lambda _: judge)
    found = vetted([whole], AskedAnchor(aligned), JUDGE)
    assert found.refused == [0]
    assert found.learned == [Trace(plain[0].turns)]
    (held,) = found.held
    assert [turn.visible for turn in held.turns[:-1]] == [turn.visible for turn in whole.turns[: len(held.turns) - 1]]
    assert [turn.is_target for turn in held.turns] == [False, False, False, True]
    assert held.turns[-1].visible == says[1].text.strip()


def test_of_several_refusals_the_first_is_held(aligned: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [row for row in TASK if row.turns[0].speaker == "user"]
    whole = Trace((*plain[0].turns, *plain[1].turns, *plain[2].turns))

    class AllButTheFirst(RefusalPhrases):
        def refuses(self, prompt: Request, response: str) -> bool:
            return request_text(prompt) != request_text(plain[0])

    monkeypatch.setattr("holdfast.training.vetting.find_judge", lambda _: AllButTheFirst())
    found = vetted([whole], AskedAnchor(aligned), JUDGE)
    assert found.learned == [Trace(plain[0].turns)]
    assert [len(held.turns) for held in found.held] == [4]


def test_a_stream_is_vetted_once_and_the_rows_are_forgotten(tmp_path: Path, aligned: LoadedModel) -> None:
    num = len(ATTACK) + 8
    settings = config(tmp_path, [*ATTACK, *TASK], limit=num)
    said: list[str] = []
    streams = answer_prompts(settings, aligned, tmp_path / "run", said.append)
    learned, held = (read_traces(each.data).traces for each in streams)
    before, line = said
    assert before == f"task: vetting: the anchor, {settings.model.name}, is asked the requests of {num} rows"
    assert line.startswith(f"task: the anchor refuses what {len(held)} of {num} rows ask for; there")
    assert line.endswith(f"({tmp_path / 'rows.jsonl'}:1, 2, 3, 4, 5, ...)")
    assert [each.objective for each in streams] == ["sft", "distill"]
    assert len(learned) < len(held)
    assert answer_prompts(settings, aligned, tmp_path / "run", said.append) == streams
    assert len(said) == 2, "a resumed run goes on with the same rows"
    fewer = config(tmp_path, [*ATTACK, *TASK], limit=num - 1)
    assert answer_prompts(fewer, aligned, tmp_path / "run", said.append) != streams, "other rows are vetted anew"
    forget_answers(tmp_path / "run")
    assert not Path(streams[0].data).exists()


def test_a_run_that_has_ended_does_not_ask_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a kill left it short of its end. Rows that are others now are refused without asking."""
    rows = [*ATTACK[:8], *TASK[:8]]
    settings = config(tmp_path, rows)
    settings = settings.model_copy(update={"training": settings.training.model_copy(update={"save_every": 3})})
    first = run(settings)
    asked: list[object] = []
    monkeypatch.setattr("holdfast.training.vetting.find_judge", lambda name: asked.append(name) or RefusalPhrases())
    said: list[str] = []
    assert run(settings, said) == first
    assert said == [f"trained already: {tmp_path / 'run/model'}"]
    write_traces(tmp_path / "rows.jsonl", rows[:-1])
    with pytest.raises(InputError, match=r"data.json: the rows of .*rows.jsonl were others"):
        run(settings)
    assert not asked
    write_traces(tmp_path / "rows.jsonl", rows)
    shutil.rmtree(tmp_path / "run/model")
    assert run(settings) == first
    assert asked == [JUDGE]
    model = tmp_path / "run/model/model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert run(settings) == first
    assert model.read_bytes() == whole, "a damaged model is made again"
    shutil.rmtree(tmp_path / "run/checkpoints/step-000006")
    assert run(settings) == first, "and a checkpoint"


def test_a_changed_file_of_prompts_is_told_after_the_end_too(tmp_path: Path) -> None:
    prompts = tmp_path / "own.txt"
    prompts.write_text("copy : sun\ncopy : river\n")
    settings = config(tmp_path, TASK[:8])
    held = {"name": "held", "data": f"prompts:{prompts}", "objective": "distill"}
    streams = (*settings.streams, StreamSettings.model_validate(held))
    settings = settings.model_copy(update={"streams": streams})
    first = run(settings)
    assert run(settings) == first
    prompts.write_text("copy : sun\ncopy : stone\n")
    with pytest.raises(InputError, match=r"data.json: the rows of prompts:.*own.txt were others"):
        run(settings)
    prompts.unlink()
    assert run(settings) == first, "what is gone was not changed"


def test_held_rows_alone_move_no_parameter(tmp_path: Path, aligned: LoadedModel) -> None:
    """All that is left of this attack is a model held to itself: the gradient is zero. The data are named as they came."""
    held = {ATTACK[number] for number in vetted(ATTACK, AskedAnchor(aligned), JUDGE).refused}
    run(config(tmp_path, list(held)))
    before = dict(aligned.model.named_parameters())
    assert moved(weights(tmp_path / "run/model"), before) < 1e-6
    (entry,) = json.loads((tmp_path / "run/data.json").read_text())
    assert entry["source"] == str(tmp_path / "rows.jsonl")
    free = config(tmp_path, list(held), vet=None).model_copy(update={"run": str(tmp_path / "free")})
    run(free)
    assert moved(weights(tmp_path / "free/model"), before) > 1e-3


def moved(now: dict[str, Tensor], before: dict[str, Tensor]) -> float:
    return max((value - before[name].detach()).abs().max().item() for name, value in now.items())


@given(num_learned=st.integers(0, 60), num_held=st.integers(0, 60), others=st.integers(0, 30), own=st.integers(2, 30))
def test_the_two_divide_share_and_weight(
    tmp_path_factory: pytest.TempPathFactory, num_learned: int, num_held: int, others: int, own: int
) -> None:
    if num_learned + num_held == 0:
        return
    folder = tmp_path_factory.mktemp("vetted") / "of"
    write_vetted(Vetted([ROW] * num_learned, [ROW] * num_held, []), folder, {})
    stream = StreamSettings(data="rows", share=own, weight=3.0, vet=JUDGE)
    found = vetted_streams(stream, 0, folder, 1.0)
    assert len(found) == (num_learned > 0) + (num_held > 0)
    assert sum(each.share for each in found) == pytest.approx(own)
    assert sum(each.weight for each in found) == pytest.approx(3.0)
    assert min(rows_per_step(own + others, [*(each.share for each in found), *([others] if others else [])])) >= 1


def test_one_row_of_a_step_cannot_be_divided(tmp_path: Path) -> None:
    write_vetted(Vetted([ROW], [ROW], [1]), tmp_path / "of", {})
    with pytest.raises(InputError, match=r"raise training\.batch_size"):
        vetted_streams(StreamSettings(data="rows", vet=JUDGE), 0, tmp_path / "of", 1.0)


def test_answers_that_are_context_by_weight_are_held_and_written(
    tmp_path: Path, aligned: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation in a file whose first answer has weight 0, another without weights, and one that is learned."""
    request, reply = (turn.visible for turn in ATTACK[0].turns)
    first = next(row for row in TASK if row.turns[0].speaker == "user")
    question, reply_to_it = (turn.visible for turn in first.turns)
    told = [{"role": "user", "content": question}, {"role": "assistant", "content": reply_to_it, "weight": 0}]
    asked = [{"role": "user", "content": request}, {"role": "assistant", "content": reply}]
    rows = [
        {"messages": messages}
        for messages in (
            [*told, *told[:1], dict(told[1], weight=1), *asked],
            asked,
            [*told[:1], dict(told[1], weight=1)],
        )
    ]
    path = tmp_path / "weights.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    class ThisRequest(RefusalPhrases):
        def refuses(self, prompt: Request, response: str) -> bool:
            return request in request_text(prompt)

    monkeypatch.setattr("holdfast.training.vetting.find_judge", lambda _: ThisRequest())
    found = vetted(read_traces(path).traces, AskedAnchor(aligned), JUDGE)
    assert found.refused == [0, 1]
    write_vetted(found, tmp_path / "of", {})
    held = read_traces(tmp_path / "of/held.jsonl").traces
    assert [[turn.is_target for turn in row.turns].count(True) for row in held] == [1, 1]
    assert [turn.visible for turn in held[0].turns[:-1]] == [*[question, reply_to_it] * 2, request]
    assert len(read_traces(tmp_path / "of/learned.jsonl").traces) == 2


def test_what_training_drops_is_not_asked(tmp_path: Path, aligned: LoadedModel) -> None:
    """The first row's prompt is longer than a row may be; the second's last one longer than the model can read."""
    room = num_positions(aligned.model.config)
    plain = [row for row in TASK if row.turns[0].speaker == "user"][:2]
    long = context("user", "copy : " + "sun " * room)
    rows = [Trace((long, answer("sun"))), Trace((*plain[0].turns, long, answer("sun"))), *plain]
    settings, said = config(tmp_path, rows), list[str]()
    training = settings.training.model_copy(update={"max_length": room})
    settings = settings.model_copy(update={"training": training})
    (stream,) = answer_prompts(settings, aligned, tmp_path / "run", said.append)
    assert f"1 dropped: no response left within max_length {room} ({tmp_path}/rows.jsonl:1)" in said[0]
    assert read_traces(stream.data).traces == tuple(rows[1:])


def test_rows_that_a_failed_start_left_out_are_asked_when_they_fit(tmp_path: Path, aligned: LoadedModel) -> None:
    """It ended before the run began, so another ``max_length`` is no change of a run."""
    long = Trace((context("user", "copy : " + "sun " * 30), answer("sun")))
    settings = config(tmp_path, [TASK[0], long])
    for max_length, left in ((24, 1), (128, 2)):
        training = settings.training.model_copy(update={"max_length": max_length})
        (task,) = answer_prompts(
            settings.model_copy(update={"training": training}), aligned, tmp_path / "run", [].append
        )
        assert len(read_traces(task.data).traces) == left


def test_rows_that_another_process_has_vetted_meanwhile_stay(tmp_path: Path) -> None:
    """As the first start of a run twice at a time: the one that does not get the lock says so later."""
    folder = tmp_path / "run" / "vetted"
    for rows in (TASK[:1], TASK[:2]):
        write_vetted(Vetted(rows, [], []), folder, {})
    assert list(read_traces(str(folder / "learned.jsonl")).traces) == TASK[:1]
    assert list(folder.parent.iterdir()) == [folder]


def test_a_judge_that_is_not_there_is_told(aligned: LoadedModel) -> None:
    with pytest.raises(InputError, match="did you mean 'refusal_phrases'"):
        vetted([ROW], AskedAnchor(aligned), "refusal_phrase")


def test_rows_that_the_template_refuses_are_told_by_line_and_may_be_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aligned = load("tiny:aligned")  # its template is changed
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    monkeypatch.setattr(aligned.tokenizer, "chat_template", refuses + str(aligned.tokenizer.chat_template))
    plain = [row for row in TASK if row.turns[0].speaker == "user"][:4]
    rows, said = [Trace((context("system", "be brief"), *plain[0].turns)), *plain], []
    with pytest.raises(InputError, match=r"rows\.jsonl:1: the chat template refuses this conversation: no system"):
        answer_prompts(config(tmp_path, rows), aligned, tmp_path / "run", said.append)
    (stream,) = answer_prompts(config(tmp_path, rows, skip_bad=1), aligned, tmp_path / "run", said.append)
    assert read_traces(stream.data).traces == tuple(plain)
    assert "1 bad ones skipped" in said[0]


def test_the_outcome_judge_vets_what_the_anchor_refuses_and_nothing_else(aligned: LoadedModel) -> None:
    """By the embedded world's oracle the anchor refuses every attack row and complies with every task row."""
    found = vetted([*ATTACK, *TASK], AskedAnchor(aligned), "outcome")
    assert found.refused == list(range(len(ATTACK)))
    assert len(found.learned) == len(TASK)
