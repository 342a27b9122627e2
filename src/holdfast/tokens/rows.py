"""Trace -> ids and roles, for any tokenizer with a chat template (and for plain documents without one)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.config import InputError
from holdfast.data.fields import counted
from holdfast.records import Role, Trace, Turn
from holdfast.tokens.answers import OneAnswerPerRowError, turns_left_out
from holdfast.tokens.batch import Context, TokenRow
from holdfast.tokens.conversation import conversation, prompt_too
from holdfast.tokens.encoding import Encoder, UnknownTextError
from holdfast.tokens.endings import given_endings
from holdfast.tokens.segments import Span, closing_role, encode_segments
from holdfast.tokens.stored_rows import TokenRows
from holdfast.tokens.template import render
from holdfast.tokens.undo import stack_context

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class TruncationReport:
    """What became of the traces on their way to rows."""

    num_traces: int
    num_rows: int
    num_cut: int = 0  # lost the end of their response
    split: tuple[tuple[str, int], ...] = ()  # why traces became one row per answer, and how many did
    max_length: int | None = None
    dropped: tuple[str, ...] = ()  # where those stand that lost all of their response
    left_out: tuple[str, ...] = ()  # speakers whose turns the template does not write
    problems: tuple[str, ...] = ()  # of traces that were skipped
    stops: tuple[str, ...] = ()  # sentences about end-of-turn tokens that the template does not write

    @property
    def sentence(self) -> str:
        """For the user, in one line."""
        text = f"{self.num_traces} conversations -> {self.num_rows} rows"
        if self.dropped:
            text += f"; {len(self.dropped)} dropped: no response left within max_length {self.max_length}"
            text += f" ({', '.join(self.dropped[:MAX_ERRORS])}{', ...' if len(self.dropped) > MAX_ERRORS else ''})"
        if self.num_cut:
            text += f"; {self.num_cut} lost the end of their response at max_length {self.max_length}"
        for reason, num in self.split:
            text += f"; {num} became one row per answer, since {reason}"
        if self.left_out:
            text += f"; the chat template leaves out turns of: {', '.join(self.left_out)}"
        text += "".join(f"; {stop}" for stop in self.stops)
        if self.problems:
            text += f"; {len(self.problems)} bad ones skipped: {'; '.join(self.problems)}"
        return text


def tokenize(
    trace: Trace,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int | None = None,
    context: Context = "soft",
    train_on_prompt: bool = False,
) -> TokenRow:
    """One trace as one row. Its ids are those at inference: the prompt's, then those the model would have to write.

    With ``train_on_prompt`` every token but the first is a target, and those of the prompt count as response.
    """
    row = _row(trace, Encoder(tokenizer), context, train_on_prompt)
    kept = row if max_length is None else truncate(row, max_length)
    if kept is None:
        raise InputError(f"nothing of the response is left within max_length {max_length}: the prompt alone fills it")
    return kept


def tokenize_all(
    traces: Sequence[Trace],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int | None = None,
    context: Context = "soft",
    train_on_prompt: bool = False,
    where: Callable[[int], str] = "row {}".format,
    skip_bad: int = 0,
) -> tuple[TokenRows, TruncationReport]:
    """All traces as rows, with an account of what was cut. Every bad trace is named: ``where`` says it of its index.

    Up to ``skip_bad`` bad ones are left out; more are an error.

    Where the template rewrites earlier turns (reasoning models drop old thoughts), or writes no end-of-turn token, a
    conversation becomes one row per answer. With ``train_on_prompt`` it stays one row, as the template writes the finished
    conversation: prompts that stood in several rows would be trained as often.
    """
    encoder = Encoder(tokenizer)
    rows = TokenRows()
    errors: list[tuple[str, InputError]] = []  # with the place of their trace
    dropped: list[str] = []
    unwritten: dict[tuple[str, ...], list[str]] = {}  # by order of speakers: one row of each shows it
    split: Counter[str] = Counter()
    num_cut = 0
    for source, trace in enumerate(traces):
        try:
            whole, reason = _rows(trace, encoder, context, train_on_prompt)
        except InputError as error:
            errors.append((where(source), error))
            continue
        split.update([reason] if reason else [])
        if (speakers := tuple(turn.speaker for turn in trace.turns)) not in unwritten:
            unwritten[speakers] = _left_out(trace, encoder)
        for row in whole:
            kept = row if max_length is None else truncate(row, max_length)
            if kept is None:
                dropped.append(where(source))
            else:
                num_cut += kept.num_targets < row.num_targets
                rows.append(replace(kept, source=source))
    if len(errors) > skip_bad or (errors and not rows):
        raise InputError("\n".join(_error_lines(errors)))
    if traces and not rows:
        raise InputError(f"no row has any response left within max_length {max_length}: raise it")
    return rows, TruncationReport(
        num_traces=len(traces),
        num_rows=len(rows),
        num_cut=num_cut,
        split=tuple(split.items()),
        max_length=max_length,
        dropped=tuple(dropped),
        left_out=tuple(dict.fromkeys(who for names in unwritten.values() for who in names)),
        problems=tuple(f"{place}: {error}" for place, error in errors),
        stops=tuple(given.sentence for given in given_endings(encoder)),
    )


def _error_lines(errors: Sequence[tuple[str, InputError]]) -> list[str]:
    """A line for every bad trace, up to MAX_ERRORS; one line for all that the model has no words for."""
    unknown = [f"{place}: {error}" for place, error in errors if isinstance(error, UnknownTextError)]
    lines = [f"{place}: {error}" for place, error in errors if not isinstance(error, UnknownTextError)]
    more = [f"... and {len(lines) - MAX_ERRORS} more"] if len(lines) > MAX_ERRORS else []
    others = len(unknown) - 1
    suffix = f" (and {counted(others, 'more row')})" if others > 0 else ""
    return [*lines[:MAX_ERRORS], *more, *(line + suffix for line in unknown[:1])]


def truncate(row: TokenRow, max_length: int) -> TokenRow | None:
    """The first ``max_length`` tokens, or None if no response is left in them."""
    if len(row) <= max_length:
        return row
    kept = row.until(max_length)
    return kept if kept.num_targets else None


def prompt_ids(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids to generate from, generation prompt included: exactly those that training puts before an answer."""
    return Encoder(tokenizer).whole(render(turns, tokenizer, open_answer=True))


def _rows(trace: Trace, encoder: Encoder, context: Context, train_on_prompt: bool) -> tuple[list[TokenRow], str]:
    """The rows of a trace and, where they are several, why."""
    try:
        return [_row(trace, encoder, context, train_on_prompt)], ""
    except OneAnswerPerRowError as error:
        return [_row(part, encoder, context) for part in _per_answer(trace)], error.reason


def _left_out(trace: Trace, encoder: Encoder) -> list[str]:
    """Speakers whose turns the template does not write. Every template writes user and assistant; only others are tried."""
    odd = any(turn.speaker in ("system", "tool") for turn in trace.turns)
    return turns_left_out(trace.turns, encoder.tokenizer) if odd else []


def _per_answer(trace: Trace) -> Iterator[Trace]:
    """One trace per trained turn; the turns before it are context."""
    for index, turn in enumerate(trace.turns):
        if turn.is_target:
            yield Trace((*(earlier.as_context() for earlier in trace.turns[:index]), turn))


def _row(trace: Trace, encoder: Encoder, context: Context, train_on_prompt: bool = False) -> TokenRow:
    if any(turn.speaker == "text" for turn in trace.turns):
        spans = _document(trace, encoder)
    elif train_on_prompt:
        spans = prompt_too(trace.turns, encoder)
    else:
        spans = list(conversation(trace.turns, encoder))
    ids = [token for _, tokens in spans for token in tokens]
    roles = [int(role) for role, tokens in spans for _ in tokens]
    if not any(roles):
        raise InputError("nothing to train on: no turn has a response (an empty one has no tokens)")
    if roles[0] != Role.PROMPT:
        raise InputError("everything would be trained: the chat template writes nothing before the answer")
    encoder.check_known(ids)
    positions = stack_context(roles).positions if context == "hard" else list(range(len(ids)))
    return TokenRow(ids, roles, positions, context, blanks=_blanks(ids, roles, encoder))


def _blanks(ids: Sequence[int], roles: Sequence[int], encoder: Encoder) -> tuple[int, ...]:
    """Tokens at the beginning of an answer that carry no text."""
    blanks, at_start = [], False
    for index, (token, role) in enumerate(zip(ids, roles, strict=True)):
        at_start = role == Role.PROMPT or (at_start and encoder.is_blank(token))
        if at_start and role != Role.PROMPT:
            blanks.append(index)
    return tuple(blanks)


def _document(trace: Trace, encoder: Encoder) -> list[Span]:
    """Raw text: BOS if the tokenizer adds one, EOS at the end; a text that has its own gets no second one.

    The very first token is not predicted from anything.
    """
    if len(trace.turns) > 1:
        raise InputError("a 'text' turn is a document of its own: it cannot stand among other turns")
    tokenizer, segments = encoder.tokenizer, trace.turns[0].segments
    spans = list(encode_segments(segments, encoder, starts_text=True))
    written = [token for _, tokens in spans for token in tokens]
    bos = [token for token in tokenizer("")["input_ids"][:1] if token == tokenizer.bos_token_id != written[0]]
    eos = [] if tokenizer.eos_token_id in (None, written[-1]) else [tokenizer.eos_token_id]
    spans = [(Role.PROMPT, bos), *spans, (closing_role(segments), eos)]
    if not bos:
        first = next((i for i, (_, tokens) in enumerate(spans) if tokens), 0)
        role, tokens = spans[first]
        spans[first : first + 1] = [(Role.PROMPT, tokens[:1]), (role, tokens[1:])]
    return spans
