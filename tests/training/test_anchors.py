"""Three ways to have an anchor give the same run; a cache that does not fit is refused by name."""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaModel

from conftest import save_small_model
from holdfast.config import InputError
from holdfast.records import Role
from holdfast.tokens import TokenRow, stack_context
from holdfast.training import policy
from holdfast.training.anchor_cache import CachedAnchor, build_cache, cache_key
from holdfast.training.anchors import _AdapterSwitch
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.policy import keep_as_autocast_reads
from training.runs import config, losses, run
from waiting import PATIENCE

LORA = {"r": 4, "alpha": 8}


ON_GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
)


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
def test_under_autocast_the_second_model_takes_half_the_memory_and_gives_the_same_run(
    tmp_path: Path, untied_model: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[dict[str, torch.dtype]] = []

    def keep(model: Any, precision: str) -> None:
        keep_as_autocast_reads(model, precision)
        kept.append({name: weights.dtype for name, weights in model.named_parameters()})

    def losses_by(way: Callable[[Any, str], None], name: str) -> list[float]:
        monkeypatch.setattr(policy, "keep_as_autocast_reads", way)
        training = {"precision": "bf16"}
        model = {"device": device}
        return losses(config(tmp_path / name, untied_model, model=model, training=training, anchor={"via": "model"}))

    assert losses_by(keep, "half") == losses_by(lambda *_: None, "whole")
    (dtypes,) = kept
    small = {name for name, dtype in dtypes.items() if dtype is torch.bfloat16}
    assert small == {name for name in dtypes if "_proj." in name}


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
def test_second_model_and_cache_give_the_same_run(tmp_path: Path, untied_model: Path, device: str) -> None:
    model = {"device": device}
    live = losses(config(tmp_path / "live", untied_model, model=model, anchor={"via": "model"}))
    cache = {"via": "cache", "cache": str(tmp_path / "cache")}
    cached = losses(config(tmp_path / "cached", untied_model, model=model, anchor=cache))
    again = losses(config(tmp_path / "again", untied_model, model=model, anchor=cache))
    assert cached == pytest.approx(live, rel=1e-5 if device == "cpu" else 1e-3)
    assert again == (cached if device == "cpu" else pytest.approx(cached, rel=1e-3))
    assert live[-1] < live[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cached_anchor_holds_a_model_that_is_its_own_anchor_where_it_is(tmp_path: Path, precision: str) -> None:
    """In other roundings than the policy's it would seem to differ, and Adam makes whole steps of small differences."""
    streams = [{"data": "world:safety/tune/guide", "objective": "distill", "limit": 16}]
    cache = {"via": "cache", "cache": str(tmp_path / "cache")}
    training = {"precision": precision, "max_steps": 2, "batch_size": 8}
    settings = config(tmp_path / "run", "tiny:aligned", streams=streams, anchor=cache, training=training)
    assert losses(settings) == pytest.approx([0, 0], abs=1e-7)


def test_a_cache_made_in_another_precision_is_refused(tmp_path: Path) -> None:
    cache = {"via": "cache", "cache": str(tmp_path / "cache")}
    run(config(tmp_path / "bf16", "tiny:aligned", anchor=cache, training={"precision": "bf16"}))
    with pytest.raises(InputError, match="precision"):
        run(config(tmp_path / "fp32", "tiny:aligned", anchor=cache))


def test_a_softened_argmax_is_taken_from_cached_hidden_states(tmp_path: Path) -> None:
    """Also where the objective needs no kl, for which (logp, top) would do if the argmax were a hard one."""
    options = {"kl": "ignore", "soften": 0.5}
    streams = [{"data": "world:safety/tune/forbidden", "objective": "pa", "options": options, "limit": 16}]
    how = {"streams": streams, "training": {"max_steps": 2}}
    anchors = {"live": {"via": "model"}, "cached": {"cache": str(tmp_path / "cache")}}
    live, cached = (
        losses(config(tmp_path / name, "tiny:base", anchor={"model": "tiny:aligned", **anchor}, **how))
        for name, anchor in anchors.items()
    )
    assert cached == pytest.approx(live, rel=1e-5)


@pytest.mark.parametrize("new_tokens", [[], ["<UNDO>"]], ids=["lora", "and a trained row of the head"])
def test_adapters_off_is_the_second_model_exactly(tmp_path: Path, small_model: Path, new_tokens: list[str]) -> None:
    how = {"lora": LORA, "model": {"new_tokens": new_tokens}}
    off = losses(config(tmp_path / "off", small_model, anchor={"via": "adapter_off"}, **how))
    live = losses(config(tmp_path / "live", small_model, anchor={"via": "model"}, **how))
    cached = losses(config(tmp_path / "cached", small_model, anchor={"cache": str(tmp_path / "cache")}, **how))
    assert off == live  # the same batches, the same products
    assert cached == pytest.approx(live, rel=1e-5)


@pytest.mark.parametrize("rows", [None, [1, 2]], ids=["lora", "and trained rows"])
def test_the_switch_turns_off_what_pefts_own_does(small_model: Path, rows: list[int] | None) -> None:
    how = LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.5, trainable_token_indices=rows)
    policy = get_peft_model(AutoModelForCausalLM.from_pretrained(small_model, attention_dropout=0.5), how)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    ids = torch.arange(1, 9)[None]
    with torch.no_grad(), policy.disable_adapter():
        expected = policy.eval()(input_ids=ids).logits
    trained = [parameter.requires_grad for parameter in policy.train().parameters()]
    switch = _AdapterSwitch(policy)
    with torch.no_grad(), switch.off():
        assert torch.equal(policy(input_ids=ids).logits, expected)
    with pytest.raises(RuntimeError, match="stop"), switch.off():
        raise RuntimeError("stop")
    assert all(module.training for module in policy.modules())
    assert [parameter.requires_grad for parameter in policy.parameters()] == trained
    assert not torch.allclose(policy.eval()(input_ids=ids).logits, expected)


def test_another_model_as_anchor_changes_the_run(tmp_path: Path, small_model: Path, untied_model: Path) -> None:
    own = losses(config(tmp_path / "own", small_model))
    other = losses(config(tmp_path / "other", small_model, anchor={"model": str(untied_model)}))
    assert other[0] != pytest.approx(own[0], rel=1e-3)


@pytest.mark.parametrize("cached", [False, True])
def test_an_anchor_of_another_vocabulary_is_refused(cached: bool, tmp_path: Path, small_model: Path) -> None:
    """csft reads one logit of the anchor's: with two words exchanged it would train on, against the wrong ones."""
    other = shutil.copytree(small_model, tmp_path / "other")
    written = json.loads((other / "tokenizer.json").read_text())
    words = written["model"]["vocab"]
    words["take"], words["and"] = words["and"], words["take"]
    (other / "tokenizer.json").write_text(json.dumps(written))
    anchor = {"model": str(other), **({"cache": str(tmp_path / "cache")} if cached else {})}
    streams = [{"data": "world:safety/train/recipe", "objective": "csft", "limit": 32}]
    with pytest.raises(InputError, match=r"another vocabulary: token \d+ is '(take|and)' there and '(take|and)' in"):
        run(config(tmp_path / "run", small_model, anchor=anchor, streams=streams))


def test_an_anchor_with_more_logits_is_refused(tmp_path: Path, small_model: Path) -> None:
    """Some families pad the vocabularies of their larger models further."""
    wide = save_small_model(tmp_path / "wide", vocab_size=400)
    with pytest.raises(InputError, match=r"has 400 logits and .*: they are compared one by one"):
        run(config(tmp_path / "run", small_model, anchor={"model": str(wide)}))


def test_csft_needs_no_hidden_states_in_its_cache(tmp_path: Path, small_model: Path) -> None:
    stream = {"data": "world:safety/train/recipe", "objective": "csft", "name": "task", "limit": 32}
    live = losses(config(tmp_path / "live", small_model, streams=[stream]))
    cache = {"cache": str(tmp_path / "cache"), "cache_hidden": False}
    cached = losses(config(tmp_path / "cached", small_model, streams=[stream], anchor=cache))
    assert cached == pytest.approx(live, rel=1e-5)
    assert not (tmp_path / "cache" / "head.safetensors").exists()
    with pytest.raises(InputError, match="holds no hidden states, and the objective needs kl"):
        run(config(tmp_path / "kl", small_model, anchor=cache))


@pytest.fixture
def cache(tmp_path: Path, small_model: Path) -> Path:
    folder = tmp_path / "cache"
    run(config(tmp_path / "first", small_model, anchor={"cache": str(folder)}))
    return folder


def test_a_cache_opens_on_the_device_of_several_processes(cache: Path) -> None:
    """accelerate calls it cpu:0 there, a name that safetensors does not know."""
    key = json.loads((cache / "manifest.json").read_text())["key"]
    opened = CachedAnchor(cache, key=key, need_kl=True, device=torch.device("cpu", 0))
    row = StreamRow(TokenRow([1, 2, 3], [Role.PROMPT, Role.RESPONSE, Role.RESPONSE], [0, 1, 2]), 0, 0, 0)
    assert opened.begin(Collator(0, (True,))([row]), None)().hidden is not None


def test_a_cache_is_read_while_the_body_of_the_policy_runs(
    tmp_path: Path, small_model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other: neither would ever be done if they took turns."""
    expected = losses(config(tmp_path / "expected", small_model, anchor={"cache": str(cache)}))
    reading, computing = threading.Event(), threading.Event()
    read, compute = CachedAnchor._read, LlamaModel.forward

    def slow_read(*inputs: Any) -> dict[str, torch.Tensor]:
        reading.set()
        assert computing.wait(PATIENCE), "the body had not begun when the rows were read"
        return read(*inputs)

    def slow_compute(body: LlamaModel, *inputs: Any, **named: Any) -> Any:
        if torch.is_grad_enabled():  # not where the trainer looks what kind of head this is
            computing.set()
            assert reading.wait(PATIENCE), "the body was over before the rows were asked for"
        return compute(body, *inputs, **named)

    monkeypatch.setattr(CachedAnchor, "_read", slow_read)
    monkeypatch.setattr(LlamaModel, "forward", slow_compute)
    assert losses(config(tmp_path / "run", small_model, anchor={"cache": str(cache)})) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"max_length": 20}},
        {"streams": [{"data": "world:safety/train/recipe", "objective": "csft_pa", "limit": 31}]},
        {"model": {"dtype": "bfloat16"}},
    ],
    ids=["max_length", "rows", "dtype"],
)
def test_a_stale_cache_is_refused_by_name(
    cache: Path, tmp_path: Path, small_model: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=f"{cache}: this anchor cache was made from other rows"):
        run(config(tmp_path / "second", small_model, anchor={"cache": str(cache)}, **changes))


def test_the_key_of_a_cache_knows_the_roles_and_the_context_of_its_rows(small_model: Path) -> None:
    """The same ids in hard context: another mask, so other hidden states; with other roles, other targets."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(small_model), AutoTokenizer.from_pretrained(small_model)
    roles = [Role.PROMPT, Role.ERROR, Role.UNDO, Role.CORRECTION]
    soft = TokenRow([1, 5, 6, 7], roles, [0, 1, 2, 3])
    hard = replace(soft, positions=stack_context(roles).positions, context="hard")
    rows = (soft, hard, replace(soft, roles=[Role.PROMPT, Role.PROMPT, Role.RESPONSE, Role.RESPONSE]))
    assert len({cache_key([StreamRow(row, 0, 0, 0)], tokenizer, model, 64) for row in rows}) == 3


def test_a_cache_of_other_weights_is_refused(
    cache: Path, tmp_path: Path, small_model: Path, untied_model: Path
) -> None:
    anchor = {"cache": str(cache), "model": str(untied_model)}
    with pytest.raises(InputError, match="other anchor weights"):
        run(config(tmp_path / "second", small_model, anchor=anchor))


def test_a_cache_of_another_template_is_refused(cache: Path, tmp_path: Path, small_model: Path) -> None:
    import shutil

    twin = tmp_path / "twin"
    shutil.copytree(small_model, twin)
    template = twin / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    with pytest.raises(InputError, match="another template"):
        run(config(tmp_path / "second", twin, anchor={"cache": str(cache)}))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
@pytest.mark.parametrize("name", ["rows-00000000.safetensors", "head.safetensors"])
def test_a_damaged_cache_is_refused_by_name(
    cache: Path, tmp_path: Path, small_model: Path, name: str, damage: str
) -> None:
    path = cache / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[-1] ^= 1
        path.write_bytes(data[:-8] if damage == "truncated" else data)
    with pytest.raises(InputError, match=name):
        run(config(tmp_path / "second", small_model, anchor={"cache": str(cache)}))


def test_a_cache_that_was_interrupted_is_made_anew(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that Ctrl-C ended nothing is left, and what a killed one left is deleted by the next."""
    settings = config(tmp_path / "run", small_model, anchor={"cache": str(tmp_path / "cache")})
    killed = tmp_path / f".cache-{2**22 + 1}"  # no process has this number
    killed.mkdir()

    def interrupted(*given: Any, **named: Any) -> None:
        build_cache(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(policy, "build_cache", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(settings)
    assert not list(tmp_path.glob("*cache*"))
    run(settings)
    assert [path.name for path in tmp_path.glob("*cache*")] == ["cache"]


def test_a_cache_begun_but_not_finished_is_refused(cache: Path, tmp_path: Path, small_model: Path) -> None:
    manifest = json.loads((cache / "manifest.json").read_text())
    assert manifest["hidden"] is True
    (cache / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"not an anchor cache \(no manifest.json\)"):
        run(config(tmp_path / "second", small_model, anchor={"cache": str(cache)}))
