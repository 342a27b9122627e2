"""`holdfast serve`: an OpenAI-compatible server that draws n, judges, and returns the best safe answer or a refusal."""

from __future__ import annotations

import logging
import os
from typing import Annotated

import typer

from holdfast.cli.generate import judge_for
from holdfast.config.extras import need_extra

KEYS, BACKEND_KEY = "HOLDFAST_API_KEYS", "HOLDFAST_BACKEND_KEY"
TRIES = 2
"""Of a judge's endpoint: more would hold its thread long after the deadline, and after the endpoint is well again."""


def serve(
    backends: Annotated[
        list[str] | None, typer.Argument(help="http://host:8000/v1, several of them, or a model to load here")
    ] = None,
    model: Annotated[str, typer.Option(help="The model's name at the backends; clients may use it too")] = "default",
    judge: Annotated[
        str | None,
        typer.Option(help="As for audit (outcome, code_policy, a guard), or none: nothing is judged; tiny: has world"),
    ] = None,
    reward: Annotated[str, typer.Option(help="As for generate: none, likelihood, judge:JUDGE, ...")] = "none",
    n: Annotated[int, typer.Option(min=1, help="Candidates per request")] = 4,
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need API keys")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    max_tokens: Annotated[int, typer.Option(min=1, help="Per candidate, at most")] = 512,
    backend_seconds: Annotated[float, typer.Option(min=0.1, help="A backend's time to answer")] = 60.0,
    judge_seconds: Annotated[
        float, typer.Option(min=0.1, help="The judge's time; later is not judged, so not returned")
    ] = 10.0,
    requests_per_minute: Annotated[float, typer.Option(min=0, help="Per key; 0 is no limit")] = 0.0,
    max_body_bytes: Annotated[int, typer.Option(min=1024)] = 1 << 20,
    retracting: Annotated[
        bool, typer.Option("--retracting", help="Allow streams that show text before it is judged")
    ] = False,
    log_prompts: Annotated[bool, typer.Option("--log-prompts", help="Write prompts to the log")] = False,
) -> None:
    """Serve /v1/chat/completions, /v1/completions and /v1/models.

    API keys: HOLDFAST_API_KEYS (commas); the backends': HOLDFAST_BACKEND_KEY.
    """
    need_extra("serve", "serve")
    names = backends or ["tiny:aligned"]
    word = judge_for(names, judge, "serve")
    from holdfast.judging import find_judge
    from holdfast.serve import NullJudge, ServerSettings
    from holdfast.serve.run import serve as run

    settings = ServerSettings(
        n=n,
        max_tokens=max_tokens,
        backend_seconds=backend_seconds,
        judge_seconds=judge_seconds,
        request_seconds=2 * backend_seconds + judge_seconds,
        max_body_bytes=max_body_bytes,
        keys=tuple(key.strip() for key in os.environ.get(KEYS, "").split(",") if key.strip()),
        requests_per_minute=requests_per_minute,
        retracting=retracting,
        log_prompts=log_prompts,
    )
    run(
        names,
        NullJudge() if word == "none" else find_judge(word, timeout=judge_seconds, num_tries=TRIES),
        settings,
        model=model,
        reward=reward,
        backend_key=os.environ.get(BACKEND_KEY),
        host=host,
        port=port,
    )
    logging.shutdown()
    os._exit(0)  # what was accepted is finished; Python would still wait for the thread of a judge that hangs
