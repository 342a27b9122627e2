"""What the layer costs: `holdfast serve` with n = 1 and no judge, against calling the same backend directly, in one run.

`python -m benchmarks.server`. Calls alternate, so that a busy machine slows both alike; the backend answers after 30 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from oversight.processes import running, server  # type: ignore[import-not-found]

BODY = {"model": "holdfast", "messages": [{"role": "user", "content": "hello"}]}
GOAL_MS = 5.0


def milliseconds(client: httpx.Client, address: str) -> float:
    begun = time.perf_counter()
    client.post(f"{address}/v1/chat/completions", json=BODY).raise_for_status()
    return 1e3 * (time.perf_counter() - begun)


def measure(num_calls: int) -> dict[str, Any]:
    """Medians of both ways; the first calls of each warm up."""
    with (
        running("fake_backend.py", "0", "0.03") as (backend, _),
        server([backend], settings={"n": 1}, null=True) as (layer, _),
        httpx.Client(timeout=30) as client,
    ):
        pairs = [(milliseconds(client, backend), milliseconds(client, layer)) for _ in range(num_calls + 20)][20:]
    direct, through = zip(*pairs, strict=True)
    extra = [after - before for before, after in pairs]
    return {
        "calls": num_calls,
        "direct_p50_ms": statistics.median(direct),
        "layer_p50_ms": statistics.median(through),
        "overhead_p50_ms": statistics.median(through) - statistics.median(direct),
        "overhead_of_pairs_p50_ms": statistics.median(extra),
        "goal_ms": GOAL_MS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=300)
    print(json.dumps(measure(parser.parse_args().calls), indent=1))


if __name__ == "__main__":
    main()
