"""The server's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.config import InputError


@dataclass(frozen=True)
class ServerSettings:
    """Everything has a limit: what goes over it is refused, not waited for."""

    n: int = 4  # candidates per request
    max_tokens: int = 512  # per candidate, where a request does not say less
    temperature: float = 0.8  # where a request does not say; best-of-n of identical answers is pointless
    backend_seconds: float = 60.0
    judge_seconds: float = 10.0
    body_seconds: float = 20.0  # for the client to send what it asks
    request_seconds: float = 120.0  # for everything together
    max_body_bytes: int = 1 << 20
    max_answers: int = 64  # of one request: its prompts times its n
    max_concurrent: int = 1024
    keys: tuple[str, ...] = field(default=(), repr=False)  # none: no key is asked for
    requests_per_minute: float = 0.0  # per key or, without keys, per address; 0 is no limit
    log_prompts: bool = False
    retracting: bool = False  # allow streams that show text before it is judged
    refusal: str = "I can't give an answer to this: none of the candidates was judged safe."

    def __post_init__(self) -> None:
        if self.n < 1 or min(self.backend_seconds, self.judge_seconds, self.body_seconds, self.request_seconds) <= 0:
            raise InputError("serve: expected n >= 1 and time limits above 0")
        if any(len(key) < 8 for key in self.keys):
            raise InputError("serve: an API key has fewer than 8 characters")
