"""A server that speaks vLLM's OpenAI protocol with a real small model behind it, for a machine without CUDA.

Written from ``ChatCompletionRequest``, ``CompletionRequest`` and their responses in vllm/entrypoints/openai/*/protocol.py (commit
002032ee2b18): field names, defaults, 400 for n > 1 with greedy sampling, stop tokens left in ``token_ids`` and named in
``stop_reason``. Unknown fields are refused here (vLLM ignores them), so that a test sees a field that vLLM does not know.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

SAMPLING = {"model", "max_tokens", "temperature", "top_p", "seed", "n", "logprobs", "stop_token_ids", "logit_bias"}
EXTRA = {"return_token_ids", "skip_special_tokens", "add_special_tokens"}
CHAT = SAMPLING | {"messages", "top_logprobs", "add_generation_prompt", "continue_final_message"}
COMPLETION = SAMPLING | EXTRA | {"prompt"}


class Stub(ThreadingHTTPServer):
    """``bodies``: every request that came. ``room``: prompt and answer together, in tokens (vLLM's max_model_len)."""

    def __init__(self, model: Any, tokenizer: Any, room: int) -> None:
        self.model, self.tokenizer, self.room = model, tokenizer, room
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)

    @torch.no_grad()
    def sample(self, prompt: list[int], body: dict[str, Any], number: int) -> dict[str, Any]:
        """One sequence, token by token, over the whole text each time."""
        generator = torch.Generator().manual_seed(body.get("seed", 0) * 1000 + number)
        ids, logps, reason, stop = list(prompt), [], "length", None
        ends = {self.model.generation_config.eos_token_id, *(body.get("stop_token_ids") or [])}
        for _ in range(body["max_tokens"]):
            logits = self.model(torch.tensor([ids]), use_cache=False).logits[0, -1].double()
            for token, bias in (body.get("logit_bias") or {}).items():
                logits[int(token)] += bias
            temperature = body.get("temperature", 1.0)
            scores = (logits / temperature if temperature else logits).log_softmax(-1)
            token = int(torch.multinomial(scores.exp(), 1, generator=generator) if temperature else scores.argmax())
            ids.append(token)
            logps.append(float(logits.log_softmax(-1)[token]))
            if token in ends:
                reason = "stop"
                stop = token if token in (body.get("stop_token_ids") or []) else None
                break
        return {"ids": ids[len(prompt) :], "logps": logps, "finish_reason": reason, "stop_reason": stop}


class Handler(BaseHTTPRequestHandler):
    server: Stub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append({"path": self.path, **body})
        known = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETION}.get(self.path)
        if known is None or body.get("model") != "served":
            return self.send(404, _error("The model does not exist.", "NotFoundError", 404))
        if unknown := body.keys() - known:
            return self.send(400, _error(f"unknown to vLLM: {sorted(unknown)}", "BadRequestError", 400))
        if body.get("n", 1) > 1 and body.get("temperature", 1.0) == 0:
            return self.send(400, _error("n must be 1 when using greedy sampling", "BadRequestError", 400))
        if known is COMPLETION and len(body["prompt"]) + body["max_tokens"] > self.server.room:
            return self.send(400, _error("This model's maximum context length is less.", "BadRequestError", 400))
        with self.server.lock:
            content = self.chat(body) if known is CHAT else self.completion(body)
        return self.send(200, content)

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        go_on = body.get("continue_final_message", False)
        prompt = self.server.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=not go_on, continue_final_message=go_on, return_dict=False
        )
        drawn = [self.server.sample(prompt, body, number) for number in range(body.get("n", 1))]
        choices = [self.chat_choice(number, one, bool(body.get("logprobs"))) for number, one in enumerate(drawn)]
        return {**_head("chat.completion", "chatcmpl"), "choices": choices, "usage": _usage(prompt, drawn)}

    def chat_choice(self, number: int, one: dict[str, Any], wants_logprobs: bool) -> dict[str, Any]:
        tokenizer = self.server.tokenizer
        pairs = zip(one["ids"], one["logps"], strict=True)
        logprobs = [{"token": tokenizer.decode([t]), "logprob": p, "bytes": None, "top_logprobs": []} for t, p in pairs]
        message = {"role": "assistant", "content": tokenizer.decode(one["ids"], skip_special_tokens=True)}
        ends = {"finish_reason": one["finish_reason"], "stop_reason": one["stop_reason"], "token_ids": None}
        return {
            "index": number,
            "message": message,
            "logprobs": {"content": logprobs} if wants_logprobs else None,
            **ends,
        }

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["prompt"]
        drawn = [self.server.sample(prompt, body, number) for number in range(body.get("n", 1))]
        text = [
            self.server.tokenizer.decode(one["ids"], skip_special_tokens=body["skip_special_tokens"]) for one in drawn
        ]
        choices = [
            {
                "index": number,
                "text": text[number],
                "logprobs": None,
                "finish_reason": one["finish_reason"],
                "stop_reason": one["stop_reason"],
                "token_ids": one["ids"] if body.get("return_token_ids") else None,
                "prompt_token_ids": prompt if body.get("return_token_ids") else None,
            }
            for number, one in enumerate(drawn)
        ]
        return {**_head("text_completion", "cmpl"), "choices": choices, "usage": _usage(prompt, drawn)}

    def send(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _error(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _head(kind: str, prefix: str) -> dict[str, Any]:
    return {"id": f"{prefix}-1", "object": kind, "created": 1, "model": "served", "system_fingerprint": None}


def _usage(prompt: list[int], drawn: list[dict[str, Any]]) -> dict[str, Any]:
    written = sum(len(one["ids"]) for one in drawn)
    return {"prompt_tokens": len(prompt), "total_tokens": len(prompt) + written, "completion_tokens": written}


@contextmanager
def serving_vllm(model: Any, tokenizer: Any, *, room: int = 512) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """``(address, every request that came)``."""
    server = Stub(model, tokenizer, room)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", server.bodies
    finally:
        server.shutdown()
        server.server_close()
