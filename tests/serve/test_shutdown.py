"""Several backends, a limit on requests, and an end that lets accepted requests finish."""

import signal
import threading

import httpx

from serve.processes import in_flight, running, server
from serve.test_server import SECONDS, post
from waiting import PATIENCE, wait_for


def test_rate_limit_several_backends_and_graceful_shutdown() -> None:
    """A dead backend is gone round; the fourth request in a minute is refused; SIGTERM lets an accepted one finish."""
    settings = {"n": 2, "requests_per_minute": 3, **SECONDS}
    with (
        running("fake_backend.py", "0", "1.0") as (slow, _),
        server(["http://127.0.0.1:9", slow], settings=settings) as (address, process),
    ):
        answers: list[httpx.Response] = []
        assert post(address, "hello").status_code == 200
        assert post(address, "hello").status_code == 200
        late = threading.Thread(target=lambda: answers.append(post(address, "hello")))
        late.start()
        wait_for(lambda: answers or in_flight(address) == 1)
        assert post(address, "hello").status_code == 429
        process.send_signal(signal.SIGTERM)
        late.join()
        assert answers[0].status_code == 200
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
