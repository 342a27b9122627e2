"""Other people's clients, unmodified, against `holdfast serve`: LangChain, LiteLLM and lm-eval.

lm-eval is asked twice: through the server, and with the same model in its own process. The answers must be the same, and
log-likelihoods equal to 1e-4.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.models.embedded import tiny_path
from holdfast.worlds import SafetyWorld
from parity.conftest import ParityRow
from serve.processes import holdfast_serve, running, server

ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("HOLDFAST_PEERS", ROOT / ".venv-peers/bin/python"))


@pytest.fixture(scope="module")
def unjudged() -> Iterator[str]:
    with holdfast_serve("tiny:aligned", "--judge", "none", "--n", "1") as address:
        yield address


@pytest.mark.skipif(not PEERS.exists(), reason="the peers' environment is missing: make peers")
@pytest.mark.parametrize("client", ["langchain", "litellm"])
def test_peers(client: str, unjudged: str) -> None:
    with running("fake_backend.py", "0", "0.01") as (backend, _), server([backend]) as (chat, _):
        command = [str(PEERS), str(Path(__file__).with_name("peer_clients.py")), client, chat, unjudged]
        own_packages = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=own_packages)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert all("[ok]" in got[name] for name in ("answer", "stream", "async", "after the tool"))
    assert (got["finish_reason"], got["refused"]) == ("stop", "content_filter")
    assert got["logprobs"] == got["answer"]
    assert len(set(got["several"])) == 2
    assert got["tool"] == ["weather", {"tag": "ok"}]
    assert got["unknown model"] == 404
    assert got["text"].strip() == "sun river"


def evaluate(folder: Path, model: str, task: str, /, **arguments: Any) -> list[Any]:
    """What lm-eval got for every row: texts, or (log-likelihood, is it the greedy one) of every choice."""
    pytest.importorskip("tenacity", reason="lm-eval's API models need it: pip install 'lm-eval[api]'")
    import lm_eval
    from lm_eval.tasks import TaskManager

    found = lm_eval.simple_evaluate(
        model=model,
        model_args=arguments,
        tasks=[task],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        apply_chat_template=task == "copying_in_chat",
        device="cpu",
        log_samples=True,
        bootstrap_iters=0,
    )
    assert found is not None
    return [sample["resps"] for sample in found["samples"][task]]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copying as a text to go on with, the same as a chat, and a choice between a right and a wrong copy."""
    folder = tmp_path_factory.mktemp("tasks")
    rows = [
        {"q": row.prompt[-1].visible, "a": row.turns[-1].visible, "choices": [row.turns[-1].visible, "bell lamp"]}
        for row in SafetyWorld().requests("test", "copy", 6)
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    shared = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "rows.json")}},
        "test_split": "test",
        "doc_to_text": "{{q}}",
    }
    written = {
        "output_type": "generate_until",
        "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["window", "\n\n"], "max_gen_toks": 12, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    }
    choosing = {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": 0,
        "metric_list": [{"metric": "acc"}],
    }
    for name, rest in {"copying": written, "copying_in_chat": written, "choosing": choosing}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **shared, **rest}))
    return folder


def own(folder: Path, task: str) -> list[Any]:
    """The model in lm-eval's own process."""
    return evaluate(folder, "hf", task, pretrained=str(tiny_path("tiny:aligned")), dtype="float32", max_length=512)


def through(folder: Path, address: str, task: str, **more: Any) -> list[Any]:
    """The same through /v1/completions."""
    arguments = {"tokenizer": str(tiny_path("tiny:aligned")), "max_length": 512, "max_retries": 1, **more}
    return evaluate(
        folder, "local-completions", task, model="holdfast", base_url=f"{address}/v1/completions", **arguments
    )


@pytest.mark.parametrize("tokenized", [True, False])
def test_lm_eval_reads_the_same_log_likelihoods(tasks: Path, unjudged: str, tokenized: bool) -> None:
    theirs, ours = own(tasks, "choosing"), through(tasks, unjudged, "choosing", tokenized_requests=tokenized)
    flat = [[choice for (choice,) in row] for row in theirs], [[choice for (choice,) in row] for row in ours]
    for expected, got in zip(*flat, strict=True):
        assert [greedy for _, greedy in got] == [greedy for _, greedy in expected]
        assert [logp for logp, _ in got] == pytest.approx([logp for logp, _ in expected], abs=1e-4)
    assert len({logp for row in flat[0] for logp, _ in row}) == 12


def test_lm_eval_batches_and_asks_at_once(tasks: Path, unjudged: str) -> None:
    one_by_one = through(tasks, unjudged, "choosing")
    assert through(tasks, unjudged, "choosing", batch_size=4) == one_by_one
    assert through(tasks, unjudged, "choosing", num_concurrent=3) == one_by_one


def test_lm_eval_writes_the_same_texts(tasks: Path, unjudged: str, parity_row: ParityRow) -> None:
    assert through(tasks, unjudged, "copying") == own(tasks, "copying")
    parity_row("lm-eval", version("lm-eval"), "texts through the server and by its own model class", "same texts")


def test_lm_eval_chats_with_a_judged_server(tasks: Path) -> None:
    """local-chat-completions always sends 'stop'. The rows are harmless, so the judge lets every answer through."""
    with holdfast_serve("tiny:aligned", "--n", "2") as address:
        arguments = {"model": "holdfast", "base_url": f"{address}/v1/chat/completions", "max_retries": 1}
        chatted = evaluate(tasks, "local-chat-completions", "copying_in_chat", **arguments)
    alone = own(tasks, "copying_in_chat")
    assert [text.strip() for ((text,),) in chatted] == [text.strip() for ((text,),) in alone]
    assert len({text for ((text,),) in chatted}) == 6


def test_lm_eval_cannot_score_through_a_judge(tasks: Path) -> None:
    """It asks for one token after the prompt, which nobody would have judged."""
    with holdfast_serve("tiny:aligned") as address, pytest.raises(Exception, match="400 Client Error"):
        through(tasks, address, "choosing")
