"""`holdfast serve`: an OpenAI-compatible server that returns only what was judged safe. Needs the extra ``serve``."""

from holdfast.serve.app import make_app
from holdfast.serve.backends import Backend, BackendError, Draw, http_backend
from holdfast.serve.guarded import GuardedJudge, NullJudge
from holdfast.serve.protocol import AnswerRequest
from holdfast.serve.settings import ServerSettings

__all__ = [
    "AnswerRequest",
    "Backend",
    "BackendError",
    "Draw",
    "GuardedJudge",
    "NullJudge",
    "ServerSettings",
    "http_backend",
    "make_app",
]
