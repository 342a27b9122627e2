"""Every template family: ids are those at inference, every answer is trained from its first token to its end token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from holdfast.config import InputError
from holdfast.records import Role, Segment, Trace, Turn, answer, context
from holdfast.tokens import UNDO_TOKEN, TokenRow, find_undo_id, prompt_ids, tokenize, tokenize_all, truncate

from .styles import STYLES, Style, fresh, make_tokenizer

ONE = Trace((context("user", "What is two plus two?"), answer("It is 4, naïve café.")))
TWO = Trace((*ONE.turns, context("user", "Hello there!"), answer("Fine, thank you.")))

every_style = pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)


def messages(turns: tuple[Turn, ...]) -> list[dict[str, str]]:
    return [{"role": turn.speaker, "content": turn.visible} for turn in turns]


def inference_ids(style: Style, turns: tuple[Turn, ...], *, open_answer: bool) -> list[int]:
    rendered = style.tokenizer.apply_chat_template(messages(turns), tokenize=True, add_generation_prompt=open_answer)
    ids: list[int] = rendered["input_ids"]
    return ids


def runs(row: TokenRow) -> list[tuple[Role, list[int]]]:
    """Neighbouring tokens of one role."""
    found: list[tuple[Role, list[int]]] = []
    for token, role in zip(row.ids, row.roles, strict=True):
        if not found or found[-1][0] != role:
            found.append((Role(role), []))
        found[-1][1].append(token)
    return found


@every_style
def test_a_row_is_the_prompt_of_inference_and_then_the_answer(style: Style) -> None:
    row = tokenize(ONE, style.tokenizer)
    prompt = inference_ids(style, ONE.turns[:1], open_answer=True)
    assert row.ids == inference_ids(style, ONE.turns, open_answer=False)
    assert row.ids[: len(prompt)] == prompt == prompt_ids(ONE.turns[:1], style.tokenizer)
    assert set(row.roles[: len(prompt)]) == {Role.PROMPT}
    assert row.roles[len(prompt)] == Role.RESPONSE  # the first token of the response is not lost
    assert row.positions == list(range(len(row)))


@every_style
def test_the_answer_is_trained_with_its_end_of_turn_token_and_no_further(style: Style) -> None:
    row = tokenize(ONE, style.tokenizer)
    trained = next(ids for role, ids in runs(row) if role is Role.RESPONSE)
    assert style.tokenizer.convert_ids_to_tokens(trained[-1]) == style.end
    text = style.tokenizer.decode(trained)
    assert text.removeprefix(style.lead) == "It is 4, naïve café." + style.end
    end = len(row) - row.roles[::-1].index(Role.RESPONSE)
    assert row.ids[end:] == style.tokenizer.encode(style.end + style.after, add_special_tokens=False)[1:]


@every_style
def test_every_answer_of_a_conversation_is_trained(style: Style) -> None:
    row = tokenize(TWO, style.tokenizer)
    assert row.ids == inference_ids(style, TWO.turns, open_answer=False)
    answers = [style.tokenizer.decode(ids).strip() for role, ids in runs(row) if role is Role.RESPONSE]
    assert answers == [f"It is 4, naïve café.{style.end}", f"Fine, thank you.{style.end}"]


@every_style
def test_only_the_turns_asked_for_are_trained(style: Style) -> None:
    asked = Trace((TWO.turns[0], context("assistant", TWO.turns[1].visible), *TWO.turns[2:], context("user", "Bye")))
    row, both = tokenize(asked, style.tokenizer), tokenize(TWO, style.tokenizer)
    assert row.ids == both.ids  # what follows the last trained turn is left out
    assert [role for role, _ in runs(row)] == [role for role, _ in runs(both)][2:]


@every_style
def test_bos_is_neither_lost_nor_doubled(style: Style) -> None:
    row = tokenize(TWO, style.tokenizer)
    assert row.ids.count(style.tokenizer.bos_token_id) == style.num_bos
    assert style.num_bos == 0 or row.ids[0] == style.tokenizer.bos_token_id


BACKTRACK = (
    Segment(Role.PREFIX, "The capital is"),
    Segment(Role.ERROR, " Lisbon, no"),
    Segment(Role.UNDO),
    Segment(Role.CORRECTION, " Madrid."),
)


def backtrack(*segments: Segment, user: str = "Spain?") -> Trace:
    return Trace((context("user", user), Turn("assistant", segments)))


@every_style
def test_an_undo_takes_back_exactly_the_tokens_of_its_error(style: Style) -> None:
    row = tokenize(backtrack(*BACKTRACK), style.tokenizer)
    by_role = dict(runs(row)[1:5])
    assert list(by_role) == [Role.PREFIX, Role.ERROR, Role.UNDO, Role.CORRECTION]
    assert by_role[Role.UNDO] == [find_undo_id(style.tokenizer)] * len(by_role[Role.ERROR])
    kept = style.tokenizer.decode(by_role[Role.PREFIX] + by_role[Role.CORRECTION])
    assert kept.removeprefix(style.lead) == "The capital is Madrid." + style.end
    retracted = style.tokenizer.decode(by_role[Role.PREFIX] + by_role[Role.ERROR])
    assert retracted.removeprefix(style.lead) == "The capital is Lisbon, no"


@every_style
def test_an_error_at_the_very_start_begins_the_answer_and_so_does_its_correction(style: Style) -> None:
    """Mistral's space belongs to both: the model writes '▁Lisbon', takes it back and writes '▁Madrid'."""
    trace = backtrack(Segment(Role.ERROR, "Lisbon"), Segment(Role.UNDO), Segment(Role.CORRECTION, "Madrid"))
    by_role = dict(runs(tokenize(trace, style.tokenizer)))
    wrong, right = (
        dict(runs(tokenize(backtrack(Segment(Role.RESPONSE, text)), style.tokenizer)))[Role.RESPONSE]
        for text in ("Lisbon", "Madrid")
    )
    assert by_role[Role.ERROR] == wrong[:-1]
    assert by_role[Role.CORRECTION] == right


@every_style
def test_segments_are_trimmed_where_the_template_trims(style: Style) -> None:
    padded = backtrack(
        Segment(Role.ERROR, "  Lisbon"),
        Segment(Role.UNDO),
        Segment(Role.CORRECTION, "  Madrid. "),
        Segment(Role.CORRECTION, "\n"),
    )
    by_role = dict(runs(tokenize(padded, style.tokenizer)))
    for role, text in ((Role.ERROR, "  Lisbon"), (Role.CORRECTION, "  Madrid. \n")):
        plain = dict(runs(tokenize(backtrack(Segment(Role.RESPONSE, text)), style.tokenizer)))[Role.RESPONSE]
        expected = plain if role is Role.CORRECTION else plain[:-1]
        assert style.tokenizer.decode(by_role[role]) == style.tokenizer.decode(expected)
        assert style.tokenizer.decode(plain).startswith(text.strip() if style.trims else " ")


@every_style
def test_nested_errors_are_taken_back_one_by_one(style: Style) -> None:
    nested = [Segment(Role.ERROR, " Rome"), Segment(Role.ERROR, " or Lisbon"), Segment(Role.UNDO), Segment(Role.UNDO)]
    row = tokenize(backtrack(BACKTRACK[0], *nested, BACKTRACK[3]), style.tokenizer)
    assert row.roles.count(Role.UNDO) == row.roles.count(Role.ERROR) > 2
    ends_undone = tokenize(backtrack(BACKTRACK[0], *nested), style.tokenizer)
    closing = ends_undone.roles[-1 - ends_undone.roles[::-1].index(Role.CORRECTION)]
    assert closing == Role.CORRECTION  # the end-of-turn token is never an undo


@every_style
@pytest.mark.parametrize("typed", [f"a {UNDO_TOKEN} b", f"{UNDO_TOKEN}{UNDO_TOKEN}x", UNDO_TOKEN])
def test_a_typed_undo_is_plain_text(style: Style, typed: str) -> None:
    row = tokenize(
        Trace((context("user", typed), answer(typed), context("user", typed), answer(typed))), style.tokenizer
    )
    assert find_undo_id(style.tokenizer) not in row.ids
    answers = [style.tokenizer.decode(ids).strip() for role, ids in runs(row) if role is Role.RESPONSE]
    assert answers == [typed + style.end] * 2
    assert style.tokenizer.decode(row.ids).count(typed) >= 4


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ue000\ue001"), min_size=1, max_size=30)


@every_style
@given(first=texts, second=texts)
@settings(max_examples=40, deadline=None)
def test_any_answer_comes_back_from_its_ids(style: Style, first: str, second: str) -> None:
    """Segments decode to their text wherever they are cut."""
    if style.trims:
        first, second = "«" + first, second + "»"
    row = tokenize(backtrack(Segment(Role.PREFIX, first), Segment(Role.CORRECTION, second)), style.tokenizer)
    start = row.roles.index(Role.PREFIX)
    end = len(row) - row.roles[::-1].index(Role.CORRECTION)
    before, after = (style.tokenizer.decode(row.ids[:i], clean_up_tokenization_spaces=False) for i in (start, end))
    assert after == before + style.lead + first + second + style.end


def test_a_word_level_tokenizer_without_spaces() -> None:
    tokenizer = make_tokenizer("words")
    row = tokenize(backtrack(*BACKTRACK), tokenizer)
    words = "<user> <unk> <assistant> The capital is <unk> <unk> <UNDO> <UNDO> <unk> <end>"
    assert tokenizer.decode(row.ids) == words
    with pytest.raises(InputError, match="word boundaries"):
        tokenize(backtrack(Segment(Role.PREFIX, "Fran"), Segment(Role.CORRECTION, "ce")), tokenizer)
    with pytest.raises(InputError, match="France' would read"):  # what is taken back must have been right, too
        tokenize(backtrack(Segment(Role.PREFIX, "Fran"), Segment(Role.ERROR, "ce"), Segment(Role.UNDO)), tokenizer)


@pytest.mark.parametrize("name", ["chatml", "llama3", "mistral"])
def test_a_document_is_fed_raw(name: str) -> None:
    tokenizer = make_tokenizer(name)
    row = tokenize(Trace((Turn("text", (Segment(Role.RESPONSE, "The words are sorted."),)),)), tokenizer)
    assert row.ids == [*tokenizer("The words are sorted.")["input_ids"], tokenizer.eos_token_id]
    assert row.roles == [Role.PROMPT] + [Role.RESPONSE] * (len(row) - 1)
    assert (row.ids[0] == tokenizer.bos_token_id) == (name != "chatml")


def test_a_tokenizer_that_adds_its_end_token_does_not_put_it_in_front() -> None:
    tokenizer = fresh("chatml")
    end = (tokenizer.eos_token, tokenizer.eos_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    row = tokenize(Trace((Turn("text", (Segment(Role.RESPONSE, "The words are sorted."),)),)), tokenizer)
    assert row.ids == tokenizer("The words are sorted.")["input_ids"]
    assert row.ids.count(tokenizer.eos_token_id) == 1


def test_a_document_in_segments_without_an_end_token() -> None:
    tokenizer = fresh("chatml")
    tokenizer.eos_token = None
    row = tokenize(Trace((Turn("text", (Segment(Role.PREFIX, ""), *BACKTRACK)),)), tokenizer)
    assert row.roles[0] == Role.PROMPT
    assert tokenizer.decode(row.ids).replace(UNDO_TOKEN, "") == "The capital is Lisbon, no Madrid."


def test_errors_say_what_to_do() -> None:
    chatml = make_tokenizer("chatml")
    plain = fresh("chatml", undo=False)
    plain.chat_template = None
    document = Turn("text", (Segment(Role.RESPONSE, "x"),))
    cases = {
        "no chat template": (ONE, plain),
        "no <UNDO> token: train with model.new_tokens": (backtrack(*BACKTRACK), fresh("chatml", undo=False)),
        "no error segment before it": (backtrack(BACKTRACK[0], BACKTRACK[2]), chatml),
        "nothing to train on": (Trace(ONE.turns[:1]), chatml),
        "begins with an answer": (Trace(ONE.turns[1:]), chatml),
        "only assistant turns": (Trace((ONE.turns[0], Turn("user", (Segment(Role.RESPONSE, "x"),)))), chatml),
        "cannot stand among other turns": (Trace((ONE.turns[0], document)), chatml),
        "System role not supported; put the system text": (
            Trace((context("system", "Be brief."), *ONE.turns)),
            make_tokenizer("gemma"),
        ),
    }
    for message, (trace, tokenizer) in cases.items():
        with pytest.raises(InputError, match=message):
            tokenize(trace, tokenizer)


def test_a_row_that_is_all_target_is_refused() -> None:
    tokenizer = fresh("chatml")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}{{ m['content'] }}{% endif %}{% endfor %}"
    )
    with pytest.raises(InputError, match="everything would be trained"):
        tokenize(ONE, tokenizer)


def test_truncation_keeps_roles_aligned_and_counts() -> None:
    """The prompt of ONE has 16 tokens and its answer 9: at 20 the end is cut, at 16 nothing is left to train."""
    tokenizer = make_tokenizer("chatml")
    whole = tokenize(ONE, tokenizer)
    start = whole.roles.index(Role.RESPONSE)
    cut = tokenize(ONE, tokenizer, max_length=start + 2)
    assert (cut.ids, cut.roles) == (whole.ids[: start + 2], whole.roles[: start + 2])
    assert truncate(whole, len(whole)) is whole
    with pytest.raises(InputError, match="the prompt alone fills it"):
        tokenize(ONE, tokenizer, max_length=start)

    long_prompt = Trace((context("user", "Hello there! " * 9), answer("Fine.")))
    rows, report = tokenize_all([long_prompt, ONE, backtrack(*BACKTRACK)], tokenizer, max_length=start + 6)
    assert [row.source for row in rows] == [1, 2]
    assert (report.num_traces, report.num_rows, report.num_cut, report.dropped) == (3, 2, 2, ("row 0",))
    assert report.sentence == (
        f"3 conversations -> 2 rows; 1 dropped: no response left within max_length {start + 6} (row 0); "
        f"2 lost the end of their response at max_length {start + 6}"
    )
    named = tokenize_all([long_prompt, ONE], tokenizer, max_length=start + 6, where="rows.jsonl:{}".format)[1]
    assert f"1 dropped: no response left within max_length {start + 6} (rows.jsonl:0);" in named.sentence
    with pytest.raises(InputError, match="raise it"):
        tokenize_all([long_prompt], tokenizer, max_length=start)
    assert tokenize_all([], tokenizer)[1].sentence == "0 conversations -> 0 rows"


def test_losing_only_the_newline_after_the_answer_is_no_loss() -> None:
    tokenizer = make_tokenizer("chatml")
    whole = tokenize(ONE, tokenizer)
    assert tokenize_all([ONE], tokenizer, max_length=len(whole) - 1)[1].num_cut == 0


def test_every_bad_row_is_named() -> None:
    bad = Trace(ONE.turns[:1])
    with pytest.raises(InputError) as caught:
        tokenize_all([bad, ONE, bad], make_tokenizer("chatml"), where="data.jsonl:{}".format)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == ["data.jsonl:0", "data.jsonl:2"]
    with pytest.raises(InputError) as caught:
        tokenize_all([bad] * 25, make_tokenizer("chatml"))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("row 0: nothing to train on")
    assert lines[20:] == ["... and 5 more"]


def test_some_bad_rows_may_be_skipped_and_are_named() -> None:
    bad, where = Trace(ONE.turns[:1]), "data.jsonl:{}".format
    rows, report = tokenize_all([bad, ONE, bad], make_tokenizer("chatml"), where=where, skip_bad=2)
    assert [row.source for row in rows] == [1]
    assert "2 bad ones skipped: data.jsonl:0: nothing to train on" in report.sentence
    with pytest.raises(InputError, match=r"data\.jsonl:2"):
        tokenize_all([bad, ONE, bad], make_tokenizer("chatml"), where=where, skip_bad=1)
    with pytest.raises(InputError, match="nothing to train on"):
        tokenize_all([bad], make_tokenizer("chatml"), skip_bad=1)


def test_hard_context_counts_positions_on_the_stack() -> None:
    soft = tokenize(backtrack(*BACKTRACK), make_tokenizer("chatml"))
    hard = tokenize(backtrack(*BACKTRACK), make_tokenizer("chatml"), context="hard")
    assert (soft.ids, soft.roles) == (hard.ids, hard.roles)
    num_undos = hard.roles.count(Role.UNDO)
    assert hard.positions[-1] == soft.positions[-1] - 2 * num_undos
