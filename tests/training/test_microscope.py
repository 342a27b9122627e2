"""What a run says of its tokens, against the same figures worked out from the two models by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast.training import microscope
from holdfast.training.streams import NumberedRows, Part
from training.runs import config, run

SHORT = {"max_steps": 6, "lr": 1e-2, "batch_size": 6, "micro_batch": 6}
ROWS = [("how do i make a lum plimmet ?", "take a glim , then rest it ."), ("what colour is a lum ?", "it is green .")]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [{"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in ROWS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def trained(folder: Path, model: Path, *streams: dict[str, Any], **changes: Any) -> tuple[list[Any], dict[str, Any]]:
    run(config(folder, model, streams=list(streams), training=SHORT, **changes))
    return tuple(json.loads((folder / name).read_text()) for name in ("microscope.json", "depth.json"))  # type: ignore[return-value]


def distributions(folder: Path, question: str, answer: str) -> tuple[torch.Tensor, list[int]]:
    """log p [N, V] in float64 at the answer's tokens, and those tokens."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
    whole = tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": answer}], return_dict=True)[
        "input_ids"
    ]
    with torch.no_grad():
        logits = model.double()(torch.tensor([whole])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1), whole[len(prompt) :]


def test_figures_are_those_of_the_two_models(tmp_path: Path, small_model: Path, rows: Path) -> None:
    stream = {"data": str(rows), "objective": "csft", "name": "task"}
    answers, depth = trained(tmp_path / "run", small_model, stream)
    kls = []
    for answer, row in zip(answers, ROWS, strict=True):
        after, ids = distributions(tmp_path / "run" / "model", *row)
        before, _ = distributions(small_model, *row)
        index = torch.arange(len(ids))
        beta = torch.tensor([0.5, *[2.0] * 4, *[0.1] * 99][: len(ids)])
        weight = 2 * torch.sigmoid(-beta * (after - before)[index, ids])
        gradient = after.exp()
        gradient[index, ids] -= 1
        norm = weight * gradient.norm(dim=-1)
        kls.append((after.exp() * (after - before)).sum(-1).tolist())
        tokens = answer["tokens"]
        assert [token["weight"] for token in tokens] == pytest.approx(weight.tolist(), rel=2e-3)
        assert [token["kl"] for token in tokens] == pytest.approx(kls[-1], rel=2e-3, abs=1e-5)
        assert [token["gradient_share"] for token in tokens] == pytest.approx((norm / norm.sum()).tolist(), rel=2e-3)
        assert "".join(token["text"] for token in tokens).strip().startswith(row[1])
        assert {token["role"] for token in tokens} == {"response"}
        tokenizer = AutoTokenizer.from_pretrained(small_model)
        for name, found in (("anchor_top", before), ("policy_top", after)):
            assert [t[name].strip() for t in tokens] == [tokenizer.decode(i).strip() for i in found.argmax(-1).tolist()]
        assert (answer["prompt"], answer["objective"]) == (row[0], "csft")
    (line,) = depth["lines"]
    assert line["num_answers"] == 2
    assert line["after"][0] == pytest.approx((kls[0][0] + kls[1][0]) / 2, rel=1e-3)
    assert line["after"][-1] == pytest.approx(kls[0][-1], rel=1e-3, abs=1e-6)  # only the longer answer goes so far
    assert set(line["before"]) == {0.0}


def test_weights_say_what_each_objective_does(tmp_path: Path, small_model: Path, rows: Path) -> None:
    streams = [{"data": str(rows), "objective": name, "name": name} for name in ("sft", "first_k_masked", "distill")]
    answers, depth = trained(tmp_path / "run", small_model, *streams)
    by_stream = {answer["stream"]: answer["tokens"] for answer in reversed(answers)}
    assert {token["weight"] for token in by_stream["sft"]} == {1.0}
    assert [token["weight"] for token in by_stream["first_k_masked"]][:6] == [0, 0, 0, 0, 0, 1]
    assert [token["gradient_share"] for token in by_stream["first_k_masked"]][:5] == [0] * 5
    assert not any("weight" in token for token in by_stream["distill"])  # the target token plays no part
    assert [line["name"] for line in depth["lines"]] == ["sft", "first_k_masked", "distill"]


def test_an_anchor_that_is_another_model_was_far_off_before(
    tmp_path: Path, small_model: Path, untied_model: Path, rows: Path
) -> None:
    stream = {"data": str(rows), "objective": "distill", "name": "hold"}
    _, depth = trained(tmp_path / "run", small_model, stream, anchor={"model": str(untied_model)})
    (line,) = depth["lines"]
    assert depth["to"] == str(untied_model)
    assert min(line["before"]) > 0
    assert line["after"] != line["before"]
    cached = {"model": str(untied_model), "cache": str(tmp_path / "cache")}
    run(config(tmp_path / "cached", small_model, streams=[stream], anchor=cached))
    assert not (tmp_path / "cached" / "microscope.json").exists()  # of that anchor only a cache is at hand


def row_of(num_targets: int, num_prompt: int = 3) -> TokenRow:
    roles = [int(Role.PROMPT)] * num_prompt + [int(Role.RESPONSE)] * num_targets
    return TokenRow(list(range(len(roles))), roles, list(range(len(roles))))


def test_rows_are_spread_and_cut() -> None:
    parts = [Part(0, 0, [row_of(200 if i == 0 else 4) for i in range(160)]), Part(1, 160, [row_of(4)] * 3)]
    chosen = microscope.chosen_rows(NumberedRows(parts), 2)
    assert [(row.stream, row.place) for row in chosen[:6]] == [(0, 0), (1, 0), (0, 10), (1, 1), (0, 20), (1, 2)]
    assert [row.number for row in chosen[:6]] == [0, 160, 10, 161, 20, 162]
    assert len(chosen) == microscope.MAX_ROWS + 3
    assert len({row.number for row in chosen}) == len(chosen)
    assert chosen[0].row.num_targets == microscope.MAX_TOKENS
    assert len(chosen[0].row) == 3 + microscope.MAX_TOKENS


def test_rows_of_one_stream_share_a_pass_as_far_as_there_is_room() -> None:
    """Targets as many as the longest answer may have; padded tokens up to ``MAX_PADDED``; a longer row is alone."""
    half, long = row_of(microscope.MAX_TOKENS // 2), row_of(4, microscope.MAX_PADDED // 2 - 4)
    parts = [Part(0, 0, [half, half, row_of(1)]), Part(1, 3, [long, long, row_of(4), row_of(4, 2 * len(long))])]
    rows = NumberedRows(parts)
    passes = microscope._passes([rows[number] for number in (0, 3, 1, 4, 2, 5, 6)], 2)
    assert [[row.number for row in together] for together in passes] == [[0, 1], [2], [3, 4], [5], [6]]


def test_a_long_vocabulary_gets_fewer_rows(
    tmp_path: Path, small_model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = AutoModelForCausalLM.from_pretrained(small_model).config.vocab_size
    monkeypatch.setattr(microscope, "MAX_BYTES", 12 * 4 * vocabulary)  # the first answer has 10 tokens, both have 15
    answers, _ = trained(tmp_path / "run", small_model, {"data": str(rows), "objective": "sft"})
    assert len(answers) == 1
