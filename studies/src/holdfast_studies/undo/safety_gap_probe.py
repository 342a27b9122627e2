"""Probabilities of a model around an error that it did not write itself, on held-out traces that are given to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from holdfast.models import head_replaced
from holdfast.records import Role, Trace
from holdfast.tokens import Context, TokenRow, apply_undo, find_undo_id, pad, tokenize_all


@dataclass(frozen=True)
class Probe:
    """A trace with one error. Indices count along ``row``; the fork is where error and right answer first differ."""

    row: TokenRow
    undo_id: int
    start: int  # of the answer
    error: int  # first error token
    undo: int  # first undo
    correction: int  # first token after the undos
    fork: int  # how many tokens of the error are still those of the right answer: numbers may share their first digits

    @property
    def right(self) -> list[int]:
        """The right answer, with the token that ends it."""
        return apply_undo(self._answer, self.undo_id)

    @property
    def _answer(self) -> list[int]:
        return [token for token, role in zip(self.row.ids, self.row.roles, strict=True) if role != Role.PROMPT]

    @property
    def begun(self) -> list[int]:
        """The answer up to and including the error."""
        return self.row.ids[self.start : self.undo]

    @property
    def prompt(self) -> list[int]:
        """What the model is given."""
        return self.row.ids[: self.start]


class Readings(NamedTuple):
    """Means over probes; each is a curve of part (c) of the theorem."""

    log_p_error: float  # of the error's token at the fork, after the prefix
    p_wrong: float  # of anything but the right token and <UNDO> there: what sft draws to the error rate
    p_undo: float  # after the whole error
    p_correction: float  # of the right tokens up to the fork, after the last <UNDO>
    p_undo_right: float | None = None  # after a right step; None where the answers are not cut into steps


@dataclass(frozen=True)
class RightRow:
    """A right answer, and where its steps end: the index of the token after each."""

    row: TokenRow
    undo_id: int
    ends: tuple[int, ...]


def _rows_and_undo(
    traces: Sequence[Trace], tokenizer: PreTrainedTokenizerBase, context: Context
) -> tuple[Sequence[TokenRow], int]:
    undo_id = find_undo_id(tokenizer)
    assert undo_id is not None
    return tokenize_all(traces, tokenizer, context=context)[0], undo_id


def make_right_rows(traces: Sequence[Trace], tokenizer: PreTrainedTokenizerBase, context: Context) -> list[RightRow]:
    """Tokenise traces whose segments are their steps, in two roles that alternate. The last step ends with the answer."""
    rows, undo_id = _rows_and_undo(traces, tokenizer, context)
    right_rows = []
    for row in rows:
        answer = [at for at, role in enumerate(row.roles) if role != Role.PROMPT]
        ends = [at for at in answer[1:] if row.roles[at] != row.roles[at - 1]]
        right_rows.append(RightRow(row, undo_id, (*ends, answer[-1])))
    return right_rows


def make_probes(traces: Sequence[Trace], tokenizer: PreTrainedTokenizerBase, context: Context) -> list[Probe]:
    """Tokenise the traces that carry exactly one error; ``row.source`` says which. An error must part from the right answer."""
    rows, undo_id = _rows_and_undo(traces, tokenizer, context)
    probes = []
    for row in rows:
        runs = [index for index, role in enumerate(row.roles) if role == Role.ERROR and row.roles[index - 1] != role]
        if len(runs) != 1:
            continue
        undo = row.roles.index(Role.UNDO)
        start = next(index for index, role in enumerate(row.roles) if role != Role.PROMPT)
        wrong, rest = row.ids[runs[0] : undo], row.ids[undo + row.roles.count(Role.UNDO) :]
        fork = next((i for i, (a, b) in enumerate(zip(wrong, rest, strict=False)) if a != b), None)
        if fork is not None:
            probes.append(Probe(row, undo_id, start, runs[0], undo, undo + row.roles.count(Role.UNDO), fork))
    return probes


@torch.no_grad()
def read(model: Any, probes: Sequence[Probe], right_rows: Sequence[RightRow] = (), *, batch_size: int = 64) -> Readings:
    """Teacher-forced probabilities at four places of every probe, and of an undo after every step of the right rows."""
    batches = [_read_batch(model, probes[at : at + batch_size]) for at in range(0, len(probes), batch_size)]
    log_p_error, p_wrong, p_undo, p_correction = torch.cat(batches).mean(0).tolist()
    false = [_undo_right(model, right_rows[at : at + batch_size]) for at in range(0, len(right_rows), batch_size)]
    p_undo_right = float(torch.cat(false).mean()) if false else None
    return Readings(log_p_error, p_wrong, p_undo, p_correction, p_undo_right)


def _undo_right(model: Any, rows: Sequence[RightRow]) -> Tensor:
    """For each row p(undo) after a right step, the mean over its steps."""
    batch = pad([right_row.row for right_row in rows], 0, float_mask=model.config._attn_implementation == "eager")
    batch = batch.to(model.device)
    width = batch.ids.shape[1]
    wanted = [number * width + end - 1 for number, right_row in enumerate(rows) for end in right_row.ends]
    logp = _log_probabilities(model, batch.model_inputs(), torch.tensor(wanted, device=batch.ids.device))
    p_undo = logp[:, rows[0].undo_id].exp().double().cpu()
    return torch.stack([part.mean() for part in p_undo.split([len(right_row.ends) for right_row in rows])])


def _read_batch(model: Any, probes: Sequence[Probe]) -> Tensor:
    batch = pad([probe.row for probe in probes], 0, float_mask=model.config._attn_implementation == "eager")
    batch = batch.to(model.device)
    width = batch.ids.shape[1]
    wanted: list[int] = []  # a token is predicted from the state before it
    for number, probe in enumerate(probes):
        offsets = [probe.error + probe.fork, probe.undo, *_correction(probe)]
        wanted += [number * width + offset - 1 for offset in offsets]
    logp = _log_probabilities(model, batch.model_inputs(), torch.tensor(wanted, device=batch.ids.device))
    rows, at = [], 0
    for probe in probes:
        own = logp[at : at + 2 + len(_correction(probe))]
        at += len(own)
        right = probe.right[probe.error - probe.start + probe.fork]
        wrong = probe.row.ids[probe.error + probe.fork]
        p_wrong = 1 - own[0, right].exp() - own[0, probe.undo_id].exp()
        corrected = sum(own[2 + i, probe.row.ids[place]] for i, place in enumerate(_correction(probe)))
        rows.append(
            torch.stack([own[0, wrong], p_wrong, own[1, probe.undo_id].exp(), torch.as_tensor(corrected).exp()])
        )
    return torch.stack(rows).double().cpu()


def _correction(probe: Probe) -> range:
    return range(probe.correction, probe.correction + probe.fork + 1)


def _log_probabilities(model: Any, inputs: dict[str, Any], index: Tensor) -> Tensor:
    """Log-probabilities [len(index), V]: only the states of ``index`` go through the head."""

    def work(hidden: Tensor, head: nn.Module) -> Tensor:
        logits: Tensor = type(head).forward(head, hidden.flatten(0, 1)[index][None])
        return logits

    with head_replaced(model, work):
        logits = model(**inputs).logits[0]
    return torch.log_softmax(logits.float(), -1)
