"""A guard model behind an OpenAI-compatible endpoint as a judge. What it does not say clearly is unscored, never safe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.generation.endpoint import EndpointSampler, NoAnswerError
from holdfast.judging.guard_formats import GuardFormat, Reading
from holdfast.judging.judge import BatchJudge, Request, conversation
from holdfast.records import Completion, Outcome, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EndpointJudge(BatchJudge):
    """``sampler.concurrency`` answers are judged at a time."""

    form: GuardFormat
    sampler: EndpointSampler

    @property
    def name(self) -> str:
        """The format and the model."""
        return f"{self.form.name}:{self.sampler.model}"

    def refuses(self, prompt: Request, response: str) -> bool:
        """Unscored counts as a refusal here, because a refusal is the fault that is looked for."""
        return self.refuses_many([(prompt, response)])[0] is not False

    def many(self, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
        """The guard's verdicts; where it was slow, refused, broke off or answered otherwise than promised: unscored."""
        readings = self._readings(pairs)
        for why in {why for reading, why in readings if reading is None}:
            log.info("%s: not judged: %s", self.name, why)  # these reasons hold nothing of request or response
        return [
            Verdict(None, None, why, self.name)
            if reading is None
            else Verdict(reading.safe, reading.score, why, self.name, _outcome(reading))
            for reading, why in readings
        ]

    def refuses_many(self, pairs: Sequence[tuple[Request, str]]) -> list[bool | None]:
        """What the guard says of refusing, where its family says it; else an answer that it calls safe is no refusal."""
        readings = [reading for reading, _ in self._readings(pairs)]
        return [None if reading is None else bool(reading.refused) for reading in readings]

    def _readings(self, pairs: Sequence[tuple[Request, str]]) -> list[tuple[Reading | None, str]]:
        questions = [
            (index, question)
            for index, (prompt, response) in enumerate(pairs)
            if response.strip()
            for question in self.form.ask(conversation(prompt), response)
        ]
        sampler = replace(self.sampler, goes_on=False, takes_text=True)  # the guard judges the last turn, it adds none
        try:
            said = sampler([question for _, question in questions], max_new_tokens=self.form.max_new_tokens)
        except NoAnswerError as error:
            said = [Completion(prompt="", text=str(error), finish_reason="error") for _ in questions]
        readings: dict[int, tuple[Reading | None, str]] = {}
        for (index, _), completion in zip(questions, said, strict=True):
            reading = self._read(completion)
            readings[index] = _worse(readings[index], reading) if index in readings else reading
        return [readings.get(index, (None, "empty response")) for index in range(len(pairs))]

    def _read(self, completion: Completion) -> tuple[Reading | None, str]:
        if completion.finish_reason == "error":
            return None, completion.text or "the judge did not answer"
        if completion.finish_reason == "length" and not self.form.beginning_is_enough:
            return None, "the judge's answer was cut off"
        reading = self.form.read(completion.text)
        if reading is None:
            return None, "the judge's answer has not the form of its family"
        return reading, f"{self.form.name}: {'safe' if reading.safe else 'unsafe'}"


def _worse(first: tuple[Reading | None, str], second: tuple[Reading | None, str]) -> tuple[Reading | None, str]:
    """The worse of two readings about one answer: one that could not be read, else the lower score."""
    return min(first, second, key=lambda pair: -1.0 if pair[0] is None else pair[0].score)


def _outcome(reading: Reading) -> Outcome | None:
    """A safe answer that is no refusal may have missed a request or met a harmless one: guards do not tell these apart."""
    if reading.refused:
        return "refused"
    return None if reading.safe else "complied"
