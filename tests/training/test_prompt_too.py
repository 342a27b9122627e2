"""A stream that trains on its prompts: what is counted, what is said, and what vetting makes of it."""

from pathlib import Path

from holdfast.config.training import StreamSettings
from holdfast.models import load_tokenizer
from holdfast.records import Trace, answer, context
from holdfast.tokens import tokenize_all
from holdfast.training.vetting import Vetted, vetted_streams, write_vetted
from holdfast.worlds import world_traces
from invariants.launching import steps
from training.runs import config, run

DATA = "world:safety/train/recipe"


def test_every_token_but_the_first_of_a_row_is_in_the_denominator(tmp_path: Path) -> None:
    stream = {"data": DATA, "objective": "sft", "name": "task", "limit": 8}
    training = {"max_steps": 1, "batch_size": 8, "lr": 1e-6}
    said: list[str] = []
    run(
        config(tmp_path / "too", "tiny:aligned", streams=[{**stream, "train_on_prompt": True}], training=training), said
    )
    run(config(tmp_path / "not", "tiny:aligned", streams=[stream], training=training))
    rows, _ = tokenize_all(world_traces(DATA, limit=8).traces, load_tokenizer("tiny:aligned"))
    [too], [plain] = steps(tmp_path / "too"), steps(tmp_path / "not")
    assert too["streams"]["task"]["tokens"] == sum(len(row) - 1 for row in rows)
    assert plain["streams"]["task"]["tokens"] == sum(row.num_targets for row in rows)
    assert "task: 8 conversations -> 8 rows; prompts are trained too" in said
    assert too["loss"] > plain["loss"] + 1  # the aligned model knows the answers, and nobody knows the requests


def test_what_vetting_holds_is_held_at_the_answer_alone(tmp_path: Path) -> None:
    row = Trace((context("user", "who"), answer("me")))
    write_vetted(Vetted([row], [row], [1]), tmp_path / "vetted", {})
    stream = StreamSettings(data="rows.jsonl", vet="refusal_phrases", train_on_prompt=True)
    learned, held = vetted_streams(stream, 0, tmp_path / "vetted", 0.1)
    assert (learned.train_on_prompt, held.train_on_prompt, held.objective) == (True, False, "distill")
