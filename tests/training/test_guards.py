"""A run stops with the reason, and what it had saved is good."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import yaml

from forked import Forked
from holdfast.config import InputError
from holdfast.training.attention import sound_gradients
from holdfast.training.checkpoints.folders import newest_good
from holdfast.training.loss import StepLoss
from holdfast.training.run_directory import RunDirectory
from invariants.launching import steps
from training import signalled
from training.runs import TASK, config, run, weights


def test_a_loss_that_is_not_a_number_stops_the_run_and_names_the_rows(tmp_path: Path, small_model: Path) -> None:
    """A learning rate far too high: the loss overflows after a few steps."""
    settings = config(tmp_path / "run", small_model, training={"lr": 1e20, "save_every": 1, "max_grad_norm": 0})
    with pytest.raises(InputError, match=r"step \d+: the loss is nan.*world:safety/train/recipe:\d+") as stopped:
        run(settings)
    step = int(str(stopped.value).split(":")[0].removeprefix("step "))
    good, complaints = newest_good(tmp_path / "run" / "checkpoints")
    assert good is not None
    assert good.name == f"step-{step - 1:06d}"
    assert complaints == []


def test_a_gradient_that_is_not_finite_stops_the_run_before_it_is_used(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StepLoss.__call__

    def poisoned(self: StepLoss, model: torch.nn.Module, *args: object, **kwargs: object) -> object:
        result = real(self, model, *args, **kwargs)  # type: ignore[arg-type]
        result.loss.register_hook(lambda grad: grad * float("inf"))
        return result

    monkeypatch.setattr(StepLoss, "__call__", poisoned)
    with pytest.raises(InputError, match="step 1: the gradient is"):
        run(config(tmp_path / "run", small_model))


def test_no_training_uses_the_attention_whose_gradient_is_wrong(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, used = StepLoss.__call__, []

    def watched(self: StepLoss, *args: object, **kwargs: object) -> object:
        used.append(torch.backends.cuda.cudnn_sdp_enabled())
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    before = torch.backends.cuda.cudnn_sdp_enabled()
    monkeypatch.setattr(StepLoss, "__call__", watched)
    run(config(tmp_path / "run", small_model))
    assert set(used) == {False}
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


@pytest.mark.gpu
def test_masked_attention_has_a_gradient_where_all_scores_are_low() -> None:
    """192 tokens, every score about -120: cuDNN's backward divides nothing by nothing there."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 1, 192, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    query, key = 0.1 * query, 0.1 * key
    query[..., 0], key[..., 0] = 1.0, -960.0  # over sqrt(64)
    query.requires_grad_()
    with sound_gradients():
        mask = torch.ones(192, 192, dtype=torch.bool, device="cuda").tril()[None, None]
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended.sum().backward()
    assert query.grad is not None
    assert torch.isfinite(query.grad).all()


def test_out_of_memory_says_which_knob_to_turn(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(StepLoss, "__call__", exhausted)
    with pytest.raises(InputError, match=r"out of memory at step 1 with 4 rows a pass: lower training.micro_batch"):
        run(config(tmp_path / "run", small_model))


def test_a_changed_config_is_refused_with_the_difference(tmp_path: Path, small_model: Path) -> None:
    run(config(tmp_path / "run", small_model))
    with pytest.raises(InputError, match=r"started with other settings(.|\n)*-  lr: 0.002\n\s*\+  lr: 0.001"):
        run(config(tmp_path / "run", small_model, training={"lr": 1e-3}))


def test_changed_data_is_refused_too(tmp_path: Path, small_model: Path, uneven_rows: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(uneven_rows.read_bytes())
    settings = config(tmp_path / "run", small_model, streams=[{"data": str(rows)}])
    run(settings)
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match="fingerprint"):
        run(settings)


def test_a_finished_run_stays_as_it_is(tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded, and no file written."""
    settings = config(tmp_path / "run", small_model)
    first = run(settings)
    before = stamps(tmp_path / "run")
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.training.run.load_model", None)
        assert run(settings, said) == first
    assert said == [f"trained already: {tmp_path / 'run/model'}"]
    assert stamps(tmp_path / "run") == before
    with pytest.raises(InputError, match="started with other settings"):
        run(config(tmp_path / "run", small_model, training={"max_steps": 6}))


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_what_a_finished_run_has_lost_is_made_again(tmp_path: Path, small_model: Path) -> None:
    """From its last checkpoint; and where that is gone, from the one before."""
    settings = config(tmp_path / "run", small_model, training={"save_every": 2})
    first = run(settings)
    before, log = weights(first.model), (tmp_path / "run" / "steps.jsonl").read_bytes()
    model = first.model / "model.safetensors"

    def flip() -> None:
        content = bytearray(model.read_bytes())
        content[-1] ^= 1
        model.write_bytes(content)

    losses: dict[str, Callable[[], object]] = {
        "the model": lambda: shutil.rmtree(first.model),
        "one file of it": (first.model / "tokenizer.json").unlink,
        "a bit of it": flip,
        "what the report shows": (tmp_path / "run" / "microscope.json").unlink,
        "the note of its end": (tmp_path / "run" / "finished.json").unlink,
        "a part of that note": lambda: (tmp_path / "run" / "finished.json").write_text("{"),
        "the last checkpoint": lambda: shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-000004"),
    }
    files = {path.relative_to(tmp_path) for path in (tmp_path / "run").rglob("*")}
    for name, lose in losses.items():
        lose()
        said: list[str] = []
        assert run(settings, said) == first, name
        step = 2 if name == "the last checkpoint" else 4
        assert f"resuming from {tmp_path / f'run/checkpoints/step-00000{step}'}" in said, name
        assert all(torch.equal(before[key], tensor) for key, tensor in weights(first.model).items()), name
        assert {path.relative_to(tmp_path) for path in (tmp_path / "run").rglob("*")} == files, name
        assert (tmp_path / "run" / "steps.jsonl").read_bytes() == log, name
    said = []
    assert run(settings, said) == first
    assert said == [f"trained already: {first.model}"]


def test_a_second_process_is_refused_while_the_first_one_trains(tmp_path: Path, small_model: Path) -> None:
    settings = config(tmp_path / "run", small_model)
    folder = RunDirectory(tmp_path / "run")
    run(settings)
    log = folder.steps.read_bytes()
    with folder.locked(), pytest.raises(InputError, match="run: another process is training here"):
        run(settings)
    assert folder.steps.read_bytes() == log
    assert run(settings).num_steps == 4  # nobody holds it any more


def test_ctrl_c_saves_and_exits_130_and_the_same_command_goes_on(tmp_path: Path, small_model: Path) -> None:
    """A real process gets a real SIGINT; the resumed run ends where an uninterrupted one does."""
    settings = config(tmp_path / "run", small_model, training={"max_steps": 12, "lr": 1e-3})
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings.model_dump(mode="json")))
    child = Forked("6", "train", path, "--quiet", script=Path(signalled.__file__)).done()
    assert child.returncode == 130, child.stderr
    assert "saved; run the same command to go on" in child.stderr
    stopped_at = json.loads((tmp_path / "run" / "steps.jsonl").read_text().splitlines()[-1])["step"]
    assert 3 <= stopped_at < 12
    good, _ = newest_good(tmp_path / "run" / "checkpoints")
    assert good is not None
    assert good.name == f"step-{stopped_at:06d}"
    run(settings)
    whole = config(tmp_path / "whole", small_model, training={"max_steps": 12, "lr": 1e-3})
    run(whole)
    assert steps(tmp_path / "run") == steps(tmp_path / "whole")
    resumed, uninterrupted = weights(tmp_path / "run" / "model"), weights(tmp_path / "whole" / "model")
    assert all(torch.equal(resumed[name], tensor) for name, tensor in uninterrupted.items())


def test_a_run_that_was_moved_goes_on_and_its_folder_may_be_written_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full is left in this way. What the anchor answered moves along."""
    (tmp_path / "asked.jsonl").write_text('{"prompt": "count : lum"}\n{"prompt": "copy : lum"}\n')
    held = {"data": f"prompts:{tmp_path / 'asked.jsonl'}", "objective": "distill", "name": "held"}
    changes = {"streams": [TASK, held], "training": {"max_steps": 6}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config(tmp_path / "run", "tiny:aligned", **changes).model_dump(mode="json")))
    assert Forked("4", "train", path, "--quiet", script=Path(signalled.__file__)).done().returncode == 130
    (tmp_path / "run").rename(tmp_path / "moved")
    said: list[str] = []
    moved = run(config(tmp_path / "moved", "tiny:aligned", **changes), said)
    assert any(line.startswith("resuming from") for line in said)
    whole = run(config(tmp_path / "whole", "tiny:aligned", **changes))
    assert steps(moved.run) == steps(whole.run)
    assert all(torch.equal(weights(moved.model)[name], tensor) for name, tensor in weights(whole.model).items())
    monkeypatch.chdir(tmp_path)
    for name in ("moved/", "./moved", "moved"):
        run(config(name, "tiny:aligned", **changes), said)
        assert said[-1] == "trained already: moved/model"
    sources = [entry["source"] for entry in json.loads((tmp_path / "moved" / "data.json").read_text())]
    assert sources[1] == held["data"], "not the file of the answers, which is deleted"


def test_a_run_may_be_made_in_a_thread(tmp_path: Path, small_model: Path) -> None:
    """Python lets the main thread alone handle signals."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run, config(tmp_path / "run", small_model)).result()
    assert result.num_steps == 4
    assert not result.interrupted


def test_the_last_step_is_logged_whatever_log_every_is(tmp_path: Path, small_model: Path) -> None:
    """Rows of three steps and of what is left; the model card says how the run ended."""
    result = run(config(tmp_path / "run", small_model, training={"log_every": 3, "max_steps": 4}))
    each = run(config(tmp_path / "each", small_model, training={"max_steps": 4}))
    rows = steps(result.run)
    assert [row["step"] for row in rows] == [3, 4]
    assert rows[-1] == steps(each.run)[-1]
    assert f"| nll | {rows[-1]['nll']:.4g}" in (result.model / "README.md").read_text()


def test_a_checkpoint_between_two_rows_of_the_log_keeps_what_the_next_row_adds_up(
    tmp_path: Path, small_model: Path
) -> None:
    """Rows at steps 4 and 8, and the run goes on from step 6: the row of step 8 still covers steps 5 to 8."""
    settings = config(
        tmp_path / "run", small_model, training={"max_steps": 8, "log_every": 4, "save_every": 3, "keep": 9}
    )
    run(settings)
    whole = steps(tmp_path / "run")
    assert [row["step"] for row in whole] == [4, 8]
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-000008")
    said: list[str] = []
    run(settings, said)
    assert any("resuming" in line and "step-000006" in line for line in said)
    assert steps(tmp_path / "run") == whole
