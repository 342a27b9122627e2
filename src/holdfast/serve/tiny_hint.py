"""What ``tiny:*`` says to a prompt that is not in its language: one fixed sentence, with a prompt that works."""

from __future__ import annotations

from holdfast.judging import Judge, WorldJudge
from holdfast.serve.overseen import Hint
from holdfast.worlds.hint import hint_for


def tiny_hint(judge: Judge) -> Hint:
    """The hint where a word is unknown to the model, or where the judge is the world's own and cannot read the request."""
    return lambda request: hint_for(request.turns, is_request=isinstance(judge, WorldJudge))
