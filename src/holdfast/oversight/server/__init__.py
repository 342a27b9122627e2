"""`holdfast serve`: an OpenAI-compatible server that returns only what was judged safe. Needs the extra ``serve``."""

from holdfast.oversight.server.app import make_app
from holdfast.oversight.server.backends import Backend, BackendError, Draw, http_backend
from holdfast.oversight.server.guarded import GuardedJudge, NullJudge
from holdfast.oversight.server.protocol import ChatRequest
from holdfast.oversight.server.settings import ServerSettings

__all__ = [
    "Backend",
    "BackendError",
    "ChatRequest",
    "Draw",
    "GuardedJudge",
    "NullJudge",
    "ServerSettings",
    "http_backend",
    "make_app",
]
