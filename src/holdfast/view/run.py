"""Start the server of the live page on this machine alone, and open the page."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from holdfast.config import InputError
from holdfast.view.app import make_view

HOST = "127.0.0.1"


def open_view(root: str | Path, *, port: int = 0, opens: bool = True, models: Sequence[str] = ()) -> None:
    """Serve the page of the runs under ``root`` until Ctrl-C or SIGTERM. Prints its address, which has the token in it.

    ``port`` 0 takes a free one. ``opens``: in a browser too. Raises ``InputError`` for a model that is not there.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; name the one that your runs are in (`holdfast train` makes runs/)")
    if models:
        from holdfast.models.load import check_there  # brings torch: a second or more

        for name in models:
            check_there(name)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)  # two that start together can both bind: only one listens
    except OSError as error:
        raise InputError(f"view: cannot listen on {HOST}, port {port}: {error.strerror}") from None
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
    app = make_view(root, token, models, has_ended=lambda: server.should_exit)
    # Access logs are off: they would repeat the token.
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    print(address, flush=True)
    if opens:
        webbrowser.open(address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises either signal again after an orderly end
        server.run([listening])
