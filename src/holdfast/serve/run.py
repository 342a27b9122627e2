"""Start the server: backends, judge and reward by name, then uvicorn until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import socket
from collections.abc import Iterator, Sequence
from functools import partial

import uvicorn

from holdfast.config import InputError
from holdfast.generation import is_endpoint
from holdfast.generation.endpoint import check_address
from holdfast.judging import Judge, WorldJudge, find_reward
from holdfast.serve.app import MODEL, log, make_app
from holdfast.serve.backends import Backend, http_backend
from holdfast.serve.guarded import NullJudge
from holdfast.serve.overseen import Hint, no_hint
from holdfast.serve.settings import ServerSettings

BACKLOG = 2048
DEFAULT_MODEL = "default"  # the name that backends are asked for where none was given


def serve(
    names: Sequence[str],
    judge: Judge,
    settings: ServerSettings,
    *,
    model: str,
    reward: str = "none",
    backend_key: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
) -> None:
    """Serve until SIGINT or SIGTERM; then accept nothing new, and finish what was accepted."""
    if host not in ("127.0.0.1", "localhost", "::1") and not settings.keys:
        raise InputError(f"serve: {host} can be reached by others, so API keys are needed (HOLDFAST_API_KEYS)")
    scored = find_reward(reward)
    if getattr(scored, "needs_references", False):
        raise InputError(
            f"serve: reward '{reward}' reads a right answer, or a test, which a client's request does not have"
        )
    listening = _listen(host, port)
    needs_logps = bool(getattr(scored, "needs_logps", False))
    backends = [make_backend(name, model, settings, backend_key, needs_logps=needs_logps) for name in names]
    called = [MODEL, *([model] if model not in (MODEL, DEFAULT_MODEL) else [])]
    app = make_app(backends, judge, settings, reward=scored, hint=make_hint(names, judge), models=called)
    with _naming_address(host, port):  # two that start together could both bind: only one listens
        listening.listen(BACKLOG)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log one line per draw
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/v1"
    judging = "not judged" if isinstance(judge, NullJudge) else f"judged by {judge.name}"
    log.info("%s, best of %d %s: %s", ", ".join(names), settings.n, judging, address)
    # A retracting stream may take that long to its first piece, to its last and to its verdict; then it is cut off.
    longest = math.ceil(settings.body_seconds + 3 * settings.request_seconds)
    config = uvicorn.Config(
        app, backlog=BACKLOG, log_level="warning", access_log=False, timeout_graceful_shutdown=longest
    )
    server = uvicorn.Server(config)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises either signal again after an orderly end
        server.run([listening])


def _listen(host: str, port: int) -> socket.socket:
    """Open the address before any model is loaded, so that one in use fails at once. Requests wait until the server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _naming_address(host, port):
        listening.bind((host, port))
    return listening


@contextlib.contextmanager
def _naming_address(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"serve: cannot listen on {host}, port {port}: {error.strerror}") from None


def make_hint(names: Sequence[str], judge: Judge) -> Hint:
    """What the embedded models say to a prompt that is not in their language; other models have no such hint.

    That is one with a word they do not know or, where the judge is their world's own, one that is no request of it.
    """
    if not all(name.startswith("tiny:") for name in names):
        return no_hint
    from holdfast.worlds.hint import hint_for

    return lambda request: hint_for(request.turns, is_request=isinstance(judge, WorldJudge))


def make_backend(name: str, model: str, settings: ServerSettings, key: str | None, *, needs_logps: bool) -> Backend:
    """An address, or a model to load into this process. ``needs_logps``: the reward reads how likely an answer is."""
    if is_endpoint(name):
        check_address(name)
        return http_backend(name, model, key=key, seconds=settings.backend_seconds, logprobs=needs_logps)
    import torch
    from transformers.utils import logging as transformers_logging

    from holdfast.judging import pair_logps
    from holdfast.models import load
    from holdfast.serve.embedded import EmbeddedBackend

    if name.startswith("tiny:"):
        torch.set_num_threads(1)  # more threads only wait for each other on a model this small
    transformers_logging.disable_progress_bar()
    loaded = load(name)
    loaded.model.eval()
    return EmbeddedBackend(loaded, partial(pair_logps, loaded) if needs_logps else None)
