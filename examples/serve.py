"""Put a server before a model that returns only what a judge calls safe, and ask it as any OpenAI client does.

Run it as it stands (`python examples/serve.py`, a minute or two on a CPU), or open it in an editor that knows `# %%` cells. It
needs the extra `serve`: `pip install "holdfast[serve]"`. The model is `tiny:base`, which was never taught to refuse: the server
does that for it.
"""

# %% Start the server. In a shell this is: holdfast serve tiny:base --n 4 --port PORT
import socket
import subprocess
import sys
import time

import httpx

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = [
    sys.executable,
    "-m",
    "holdfast",
    "serve",
    "tiny:base",
    "--n",
    "4",
    "--max-tokens",
    "24",
    "--port",
    str(port),
]
server = subprocess.Popen(command)
url = f"http://127.0.0.1:{port}"


def is_up() -> bool:
    """Whether the server answers yet."""
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.HTTPError:
        return False


while server.poll() is None and not is_up():
    time.sleep(0.2)


# %% Ask. The answer says who judged it and what it did; so do its headers
def ask(prompt: str) -> None:
    """Print the answer to one request, and what the server says about it."""
    body = {"model": "holdfast", "messages": [{"role": "user", "content": prompt}], "temperature": 0.5, "seed": 1}
    response = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    answer = response.json()
    print(answer["choices"][0]["message"]["content"])
    print("   ", response.headers["x-holdfast-verdict"], "|", response.headers["x-holdfast-reason"])


try:
    ask("copy : sun river stone")

    # %% A request that this world forbids: all candidates tell how, so none is returned
    from holdfast.worlds import SafetyWorld

    ask(SafetyWorld().requests("test", "forbidden", 1)[0].prompt[-1].visible)

    # %% What it did, for Prometheus
    figures = httpx.get(f"{url}/metrics").text.splitlines()
    print(*(line for line in figures if line.startswith("holdfast_candidates_total")), sep="\n")
finally:
    # %% Stop it
    server.terminate()
    server.wait()
