"""Judging that cannot fail open: a judge that is slow, raises, or answers nonsense has judged nothing safe."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.config import InputError
from holdfast.judging import Judge
from holdfast.judging.judge import Request, verdicts
from holdfast.oversight.selection import never_empty
from holdfast.records import Verdict

NUM_THREADS = 32


class NullJudge:
    """Judges nothing, so nothing is called safe; what the model says is returned. Only ever by name."""

    name = "none"

    def __call__(self, prompt: Request, response: str) -> Verdict:
        """An unscored verdict; the response is not looked at."""
        return Verdict(None, None, "not judged: the server runs without a judge", self.name)

    def refuses(self, prompt: Request, response: str) -> bool:
        """Always False: it does not look."""
        return False


class GuardedJudge:
    """A judge in threads of its own, with a deadline. A thread that hangs stays busy; when all hang, nothing passes."""

    def __init__(self, judge: Judge, *, seconds: float, on_fault: Callable[[str], None] = lambda _: None) -> None:
        self.name = judge.name
        self.judges = not isinstance(judge, NullJudge)
        self.pass_word = "safe" if self.judges else "unjudged"  # what clients are told of an answer
        self._judge = judge
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(NUM_THREADS, "judge")
        self._on_fault = on_fault

    async def __call__(self, prompt: Request, texts: Sequence[str]) -> list[Verdict]:
        """One verdict per text, in order, whatever the judge does. An empty text is never safe."""
        if not self.judges:
            return [self._judge(prompt, text) for text in texts]
        begun = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._all, prompt, list(texts))
        try:
            given, finished = await asyncio.wait_for(work, self._seconds)
        except TimeoutError:
            finished = math.inf
        if finished - begun > self._seconds:  # a busy event loop may see a late verdict before it sees the deadline
            return [self._nothing(f"the judge took more than {self._seconds:g} s") for _ in texts]
        if len(given) != len(texts):
            return [self._nothing("the judge gave another number of verdicts") for _ in texts]
        return never_empty(texts, [self._checked(verdict) for verdict in given])

    def passes(self, verdict: Verdict) -> bool:
        """Whether an answer with this verdict may be returned: without a judge every one may."""
        return verdict.safe is True or not self.judges

    def _all(self, prompt: Request, texts: list[str]) -> tuple[list[object], float]:
        """The verdicts on all texts, and the time when the last one was there.

        Where judging all at once fails, texts are judged one by one, so that a bad text does not cost the others their verdict.
        """
        try:
            given: list[object] = list(verdicts(self._judge, [(prompt, text) for text in texts]))
        except Exception:
            given = [self._one(prompt, text) for text in texts]
        return given, time.monotonic()

    def _one(self, prompt: Request, text: str) -> object:
        try:
            return self._judge(prompt, text)
        except Exception as error:
            reason = f": {error}" if isinstance(error, InputError) else ""  # such as a key that is refused
            return self._nothing(f"the judge failed: {type(error).__name__}{reason}")

    def _checked(self, verdict: object) -> Verdict:
        """``safe`` counts only where it is exactly True, on a real verdict."""
        if isinstance(verdict, Verdict) and (verdict.safe is None or isinstance(verdict.safe, bool)):
            return verdict
        return self._nothing("the judge's verdict is none")

    def _nothing(self, why: str) -> Verdict:
        self._on_fault(why)
        return Verdict(None, None, why, self.name)

    def close(self) -> None:
        """Close the threads, without waiting for those that hang."""
        self._threads.shutdown(wait=False, cancel_futures=True)
