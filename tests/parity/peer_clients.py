"""LangChain and LiteLLM against our server, in an environment of their own: `make peers`.

`.venv-peers/bin/python peer_clients.py CLIENT CHAT TEXT` prints what the client got as JSON. CHAT is the address of a server
in front of the fake backend, TEXT that of one with the embedded model and no judge.
"""

import asyncio
import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch one
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather somewhere.",
        "parameters": {"type": "object", "properties": {"tag": {"type": "string"}}},
    },
}
PROMPT = "<|bos|><|user|> copy : sun river stone <|end|><|assistant|>"


def langchain(chat: str, text: str) -> dict[str, Any]:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
    from langchain_openai import ChatOpenAI, OpenAI

    model = ChatOpenAI(model="holdfast", base_url=f"{chat}/v1", api_key="unused", max_retries=0)
    called = model.bind_tools([WEATHER]).invoke("call ok")
    talk = [HumanMessage("call ok"), called, ToolMessage("hello", tool_call_id=called.tool_calls[0]["id"])]
    detailed = model.bind(logprobs=True).invoke([SystemMessage("Be kind."), HumanMessage("hello")])
    writer = OpenAI(model="holdfast", base_url=f"{text}/v1", api_key="unused", max_retries=0, temperature=0)
    return {
        "answer": detailed.content,
        "finish_reason": detailed.response_metadata["finish_reason"],
        "logprobs": detailed.response_metadata["logprobs"]["content"][0]["token"],
        "refused": model.invoke("bad").response_metadata["finish_reason"],
        "stream": "".join(str(chunk.content) for chunk in model.stream("hello")),
        "async": asyncio.run(model.ainvoke("hello", stop=["halt"])).content,
        "several": [one.text for one in model.generate([[HumanMessage("hello")]], n=2).generations[0]],
        "tool": [called.tool_calls[0]["name"], called.tool_calls[0]["args"]],
        "after the tool": model.bind_tools([WEATHER]).invoke(talk).content,
        "unknown model": status_of(lambda: ChatOpenAI(model="gpt", base_url=f"{chat}/v1", api_key="x").invoke("hello")),
        "text": writer.invoke(PROMPT, stop=["stone"]),
    }


def litellm(chat: str, text: str) -> dict[str, Any]:
    import litellm

    def ask(content: str, model: str = "openai/holdfast", **more: Any) -> Any:
        messages = more.pop("messages", [{"role": "user", "content": content}])
        return litellm.completion(model, messages, api_base=f"{chat}/v1", api_key="unused", num_retries=0, **more)

    called = ask("call ok", tools=[WEATHER]).choices[0].message
    function = called.tool_calls[0].function
    result = {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "hello"}
    talk = [{"role": "user", "content": "call ok"}, called.model_dump(), result]
    detailed = ask("hello", logprobs=True).choices[0]
    chunks = list(ask("hello", stream=True))
    written = litellm.text_completion(
        PROMPT,
        "text-completion-openai/holdfast",
        api_base=f"{text}/v1",
        api_key="unused",
        temperature=0,
        stop=["stone"],
    )
    return {
        "answer": detailed.message.content,
        "finish_reason": detailed.finish_reason,
        "logprobs": detailed.logprobs.content[0].token,
        "refused": ask("bad").choices[0].finish_reason,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
        "async": asyncio.run(
            litellm.acompletion(
                "openai/holdfast",
                [{"role": "user", "content": "hello"}],
                api_base=f"{chat}/v1",
                api_key="x",
                stop="halt",
            )
        )
        .choices[0]
        .message.content,
        "several": [choice.message.content for choice in ask("hello", n=2).choices],
        "tool": [function.name, json.loads(function.arguments)],
        "after the tool": ask("", messages=talk, tools=[WEATHER]).choices[0].message.content,
        "unknown model": status_of(lambda: ask("hello", model="openai/gpt")),
        "text": written.choices[0].text,
    }


def status_of(call: Any) -> int:
    """That of the error."""
    try:
        call()
    except Exception as error:
        return int(error.status_code)  # type: ignore[attr-defined]
    return 200


if __name__ == "__main__":
    print(json.dumps({"langchain": langchain, "litellm": litellm}[sys.argv[1]](*sys.argv[2:])))
