"""The decoder whole: batches, limits, sampling, events, and text that only looks like an undo."""

from __future__ import annotations

import pytest
import torch

from generation.undo_models import UNDO, fresh_logits, small_llama
from holdfast.config import InputError
from holdfast.generation import (
    Delete,
    Finished,
    Insert,
    UndoDecoder,
    UndoDecoding,
    UndoLimits,
    generate,
    generate_with_undo,
    stream_with_undo,
)
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.records import context

PROMPTS = [[1, 5, 6, 7, 8], [1, 9], [1, 11, 12]]
ASKED = ["copy : sun river", "what colour is a welmi plimmet ?", "how do i make a welmi plimmet ?"]


def decoder(**how: object) -> UndoDecoder:
    """A small Llama that likes to undo."""
    model = small_llama("sdpa")
    with torch.no_grad():
        model.lm_head.weight[UNDO] *= 1.5
    return UndoDecoder(model, UNDO, (2,), 0, UndoDecoding(**how))  # type: ignore[arg-type]


def answers(
    how: UndoDecoder, prompts: list[list[int]] = PROMPTS, begun: list[list[int]] | None = None
) -> list[list[int]]:
    done = {step.row: step.answer.written for step in how.steps(prompts, begun) if step.finished}
    return [done[row] for row in range(len(prompts))]


@pytest.mark.parametrize("how", ["soft", "hard"])
def test_greedy_takes_the_likeliest_token_that_is_allowed(how: str) -> None:
    """Step by step against fresh forwards; the bars are worked out anew from what was written."""
    decoding = decoder(context=how, max_new_tokens=20)
    assert any(UNDO in answer for answer in answers(decoding)), "the case must undo"
    for prompt, answer in zip(PROMPTS, answers(decoding), strict=True):
        states = {len(step.answer.written) - 1: step for step in decoding.steps([prompt])}
        assert len(states) == len(answer)
        for number, token in enumerate(answer):
            logits = fresh_logits(decoding.model, prompt, answer[:number], how)
            assert logits[token] >= logits.topk(6).values[-1]


def test_a_batch_answers_as_its_rows_do_alone() -> None:
    for how in ("soft", "hard"):
        decoding = decoder(context=how, max_new_tokens=30)
        assert answers(decoding) == [answers(decoding, [prompt])[0] for prompt in PROMPTS]


def test_sampling_is_repeatable_and_follows_the_seed() -> None:
    first, again, other = (answers(decoder(temperature=1.0, seed=seed, max_new_tokens=20)) for seed in (0, 0, 1))
    assert first == again != other


def test_limits_hold_in_the_decoder() -> None:
    for answer in answers(decoder(context="hard", max_new_tokens=40, limits=UndoLimits(per_answer=3))):
        assert answer.count(UNDO) <= 3
    assert not any(UNDO in answer for answer in answers(decoder(limits=UndoLimits(per_answer=0), max_new_tokens=20)))


def test_an_answer_that_was_begun_can_be_taken_back() -> None:
    begun = [[7, 8, UNDO], [UNDO], [3, 4, 5, UNDO, UNDO, UNDO, UNDO]]
    for written, script in zip(answers(decoder(context="hard", max_new_tokens=12), begun=begun), begun, strict=True):
        assert written[: len(script)] == script


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    loaded = load("tiny:aligned")
    add_tokens(loaded.model, loaded.tokenizer)
    return loaded


def encoded(tiny: LoadedModel, *texts: str) -> list[list[int]]:
    undo = tiny.tokenizer.convert_tokens_to_ids("<UNDO>")
    assert isinstance(undo, int)
    ids = [tiny.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    return [[*tokens, *[undo] * 2] for tokens in ids]


@pytest.mark.parametrize("how", ["soft", "hard"])
def test_events_carried_out_are_the_final_text(tiny: LoadedModel, how: str) -> None:
    shown, finished = [""] * len(ASKED), {}
    begun = encoded(tiny, "river sun lamp", "red", "take oskel")
    decoding = UndoDecoding(24, how, temperature=0.8, seed=3)  # type: ignore[arg-type]
    deleted = 0
    for event in stream_with_undo(tiny.model, tiny.tokenizer, ASKED, decoding, begun=begun):
        match event:
            case Insert(row, text):
                shown[row] += text
            case Delete(row, num_chars):
                deleted += 1
                shown[row] = shown[row][:-num_chars]
            case Finished(row, completion):
                finished[row] = completion
    assert deleted >= 3
    assert [finished[row].text for row in range(len(ASKED))] == shown
    assert [finished[row].num_undos for row in range(len(ASKED))] == [2, 2, 2]
    whole = generate_with_undo(tiny.model, tiny.tokenizer, ASKED, decoding, begun=begun)
    assert {each.prompt for each in whole} == set(ASKED)


def test_without_undos_it_is_plain_decoding(tiny: LoadedModel) -> None:
    plain = generate(tiny.model, tiny.tokenizer, ASKED, max_new_tokens=24)
    for how in ("soft", "hard"):
        decoding = UndoDecoding(24, how)  # type: ignore[arg-type]
        assert generate_with_undo(tiny.model, tiny.tokenizer, ASKED, decoding, batch_size=2) == plain


@pytest.mark.parametrize(
    "prompt",
    ["copy : sun <UNDO> river", [context("user", "copy : sun"), context("assistant", "sun <UNDO>")]],
    ids=["user", "begun answer"],
)
def test_undo_typed_in_a_prompt_is_text(tiny: LoadedModel, prompt: object) -> None:
    """It is spelled out: the model is shown unknown words, never the token, and nothing of the prompt goes."""
    from holdfast.generation.conversations import ids_to_continue, turns_of

    ids = ids_to_continue(turns_of(prompt), tiny.tokenizer)  # type: ignore[arg-type]
    assert tiny.tokenizer.convert_tokens_to_ids("<UNDO>") not in ids
    (completion,) = generate_with_undo(tiny.model, tiny.tokenizer, [prompt], UndoDecoding(12))  # type: ignore[list-item]
    assert completion.num_undos == 0


def test_the_end_of_a_text_during_an_undo_run_is_clean(tiny: LoadedModel) -> None:
    (script,) = encoded(tiny, "sun river lamp")
    script = [*script[:-1], tiny.tokenizer.eos_token_id]
    *events, end = stream_with_undo(
        tiny.model, tiny.tokenizer, ["copy : sun"], UndoDecoding(24, "hard"), begun=[script]
    )
    assert isinstance(end, Finished)
    assert end.completion.text == "sun river"
    assert end.completion.finish_reason == "stop"
    assert isinstance(events[-1], Delete)


def test_an_answer_cut_off_during_an_undo_run_is_clean_too(tiny: LoadedModel) -> None:
    (script,) = encoded(tiny, "sun river lamp")
    (completion,) = generate_with_undo(
        tiny.model, tiny.tokenizer, ["copy : sun"], UndoDecoding(4, "hard"), begun=[script]
    )
    assert (completion.text, completion.finish_reason) == ("sun river", "length")


def test_wrong_settings_are_told(tiny: LoadedModel) -> None:
    with pytest.raises(InputError, match="context: expected soft or hard, not 'hrad'"):
        UndoDecoding(context="hrad")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch_size=0: expected a whole number"):
        generate_with_undo(tiny.model, tiny.tokenizer, ["copy : sun"], batch_size=0)


def test_a_model_without_the_token_says_so() -> None:
    plain = load("tiny:base")
    with pytest.raises(InputError, match="no <UNDO>"):
        generate_with_undo(plain.model, plain.tokenizer, ["x"])
