"""An OpenAI-compatible backend with realistic latency and, on request or at random, the faults that real ones have.

`python fake_backend.py SHARE_OF_FAULTS [SECONDS [calls]]` prints its port; with ``calls`` it calls tools that it was not
given. A user message ``do:FAULT`` asks for one fault, and ``ends:REASON`` for a stream with this end, ``wire:NAME`` for one
with odd but lawful bytes. ``alone`` gets one choice whatever ``n`` is, with its seed; ``nothing`` an empty answer,
``request`` the request itself, and ``call TAG`` a call of the first tool. Answers carry ``[ok]`` or ``[bad]``: the judge of
the tests reads that. It has no /completions.
"""

import asyncio
import json
import random
import socket
import sys
import uuid
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

FAULTS = ("error", "garbled", "empty", "partial", "broken_choice", "cut_off", "no_text", "slow")
WIRE = b'data:{"choices": [{"delta": {"content": "%s"}, "finish_reason": "stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n'
WIRES = {"line_separator": "one \u2028 two [ok]", "half_character": "half \\ud83d [ok]"}
rng = random.Random(0)


def text(asked: str) -> str:
    tag = "bad" if "bad" in asked or (asked.startswith("load") and rng.random() < 0.2) else "ok"
    return f"answer {uuid.uuid4().hex} [{tag}]"


def choice(index: int, content: str | None, finish: str = "stop", logp: float = -1.0) -> dict[str, Any]:
    """The whole text is one token, an end token follows it, and each has an alternative that nobody has judged."""
    top = [{"token": "other [bad]", "logprob": -0.5}]
    tokens = [(content, logp), ("<end>", logp)]
    logprobs = {"content": [{"token": token, "logprob": logp, "top_logprobs": top} for token, logp in tokens]}
    return {
        "index": index,
        "message": {"role": "assistant", "content": content},
        "finish_reason": finish,
        "logprobs": logprobs,
    }


def faulty(fault: str, n: int, asked: str) -> Response:
    if fault == "error":
        return JSONResponse({"error": "oops"}, 500)
    if fault == "garbled":
        return Response(b'{"choices": [{"mess', media_type="application/json")
    good = [choice(index, text(asked)) for index in range(n)]
    choices = {
        "empty": [],
        "partial": good[: max(1, n // 2)],
        "broken_choice": [None, {"message": 3}, *good[:1]],
        "cut_off": [choice(0, "half an ans [ok]", "error")],
        "no_text": [choice(0, None)],
    }
    return JSONResponse({"choices": choices[fault]})


def tool_call(index: int, body: dict[str, Any], asked: str) -> dict[str, Any]:
    """With the last word of the request as its argument."""
    name = body["tools"][0]["function"]["name"] if "tools" in body else "surprise"
    function = {"name": name, "arguments": json.dumps({"tag": asked.split()[-1]})}
    message = {"content": None, "tool_calls": [{"id": f"call-{index}", "type": "function", "function": function}]}
    return {"index": index, "message": message, "finish_reason": "tool_calls"}


async def chat(request: Request) -> Response:
    body = await request.json()
    prompt, n = str(body["messages"][-1]["content"]), int(body.get("n", 1))
    await asyncio.sleep(rng.uniform(*LATENCY))
    fault = prompt.removeprefix("do:") if prompt.startswith("do:") else None
    if fault is None and rng.random() < SHARE:
        fault = rng.choice(FAULTS)
    if fault == "slow":
        while not await request.is_disconnected():
            await asyncio.sleep(0.05)
        return Response()
    if fault == "too_long":  # the client's fault, so never at random
        return JSONResponse({"error": "maximum context length"}, 400)
    if fault in FAULTS:
        return faulty(fault, n, prompt)
    if prompt.startswith("call") or CALLS:
        return JSONResponse({"choices": [tool_call(index, body, prompt) for index in range(n)]})
    if prompt.startswith("wire:"):
        return Response(WIRE % WIRES[prompt.removeprefix("wire:")].encode(), media_type="text/event-stream")
    if body.get("stream"):
        reason = prompt.removeprefix("ends:") if prompt.startswith("ends:") else "stop"
        return StreamingResponse(pieces(text(prompt), reason), media_type="text/event-stream")
    special = {"nothing": " ", "request": f"[ok] {json.dumps(body)}", "alone": f"seed {body.get('seed')} [ok]"}
    n = 1 if prompt == "alone" else n
    answers = [choice(index, special.get(prompt, text(prompt)), logp=-1.0 - index) for index in range(n)]
    if prompt.startswith("likeliest"):
        for token in answers[-1]["logprobs"]["content"]:
            token["logprob"] = -0.1
    return JSONResponse({"choices": answers, "usage": {"prompt_tokens": 7, "completion_tokens": 5 * n}})


async def pieces(whole: str, reason: str) -> Any:
    for start in range(0, len(whole), 8):
        end = reason if start + 8 >= len(whole) else None
        delta = {"choices": [{"index": 0, "delta": {"content": whole[start : start + 8]}, "finish_reason": end}]}
        yield f"data: {json.dumps(delta)}\n\n"
    yield "data: [DONE]\n\n"


SHARE = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
LATENCY = (float(sys.argv[2]), float(sys.argv[2])) if len(sys.argv) > 2 else (0.02, 0.08)
CALLS = len(sys.argv) > 3

if __name__ == "__main__":
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, backlog=2048))
    asyncio.run(server.serve([listening]))
