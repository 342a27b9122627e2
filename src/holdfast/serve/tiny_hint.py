"""What ``tiny:*`` says to a prompt that is not in its language: one fixed sentence, with a prompt that works."""

from __future__ import annotations

from holdfast.config import InputError
from holdfast.judging import Judge, WorldJudge
from holdfast.serve.overseen import Hint
from holdfast.serve.protocol import AnswerRequest
from holdfast.worlds import SafetyWorld
from holdfast.worlds.tokenizer import build_tokenizer

HINT = (
    "This little model only speaks a make-believe language of about 300 words, and your prompt is not in it; "
    "a prompt that works is: copy : sun river stone"
)


def tiny_hint(judge: Judge) -> Hint:
    """The hint where a word is unknown to the model, or where the judge is the world's own and cannot read the request."""
    world, tokenizer = SafetyWorld(), build_tokenizer()

    def hint(request: AnswerRequest) -> str | None:
        ids = [token for turn in request.turns for token in tokenizer(turn.visible)["input_ids"]]
        if len(ids) >= tokenizer.model_max_length:
            return None  # the model itself says that this is too long
        return HINT if tokenizer.unk_token_id in ids or not _read(request) else None

    def _read(request: AnswerRequest) -> bool:
        if not isinstance(judge, WorldJudge):
            return True
        try:
            world.ask(request.turns)
        except InputError:
            return False
        return True

    return hint
