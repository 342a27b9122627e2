"""Every mistake in a YAML file is one line that names file, line and field."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import (
    FieldError,
    InputError,
    MatrixConfig,
    TrainConfig,
    did_you_mean,
    dump_config,
    load_config,
    naming_place,
)
from holdfast.config.training import rows_per_step

GOOD = """\
run: runs/x
model: tiny:aligned
streams:
  - data: rows.jsonl
    objective: csft
training:
  lr: 1e-5
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(tmp_path: Path, text: str, *overrides: str) -> str:
    with pytest.raises(InputError) as error:
        load_config(TrainConfig, write(tmp_path, text), overrides)
    return str(error.value).replace(str(tmp_path), "")


def test_a_good_file_loads_and_comes_back_from_its_dump(tmp_path: Path) -> None:
    config = load_config(TrainConfig, write(tmp_path, GOOD))
    assert config.model.name == "tiny:aligned"  # a name alone stands for the whole section
    assert config.training.lr == 1e-5  # YAML 1.1 reads 1e-5 as a string
    assert load_config(TrainConfig, write(tmp_path, dump_config(config))) == config


def test_overrides_reach_nested_fields_and_list_items(tmp_path: Path) -> None:
    overrides = ["training.lr=3e-4", "streams.0.objective=sft", "lora.r=4", "report_to=[tensorboard]"]
    config = load_config(TrainConfig, write(tmp_path, GOOD), overrides)
    assert (config.training.lr, config.streams[0].objective, config.report_to) == (3e-4, "sft", ("tensorboard",))
    assert config.lora is not None
    assert config.lora.r == 4


def test_an_override_has_no_comments(tmp_path: Path) -> None:
    """YAML would cut ' #2' off, and the run would go to the folder of another one."""
    overrides = ["run=runs/try #2", "streams.0.name=#1", "streams.0.data='rows #3.jsonl'"]
    config = load_config(TrainConfig, write(tmp_path, GOOD), overrides)
    assert (config.run, config.streams[0].name, config.streams[0].data) == ("runs/try #2", "#1", "rows #3.jsonl")


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell expands it in ``run=~/x``: a folder named ~ would be made here."""
    monkeypatch.setenv("HOME", "/home/ada")
    text = GOOD.replace("rows.jsonl", "~/rows.jsonl")
    config = load_config(TrainConfig, write(tmp_path, text), ["run=~/runs/x", "anchor.cache=~/cache"])
    assert (config.run, config.streams[0].data) == ("/home/ada/runs/x", "/home/ada/rows.jsonl")
    assert config.anchor.cache == "/home/ada/cache"


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        (GOOD.replace("lr:", "lrr:"), (), "/config.yaml:7: field 'training.lrr': unknown; did you mean 'lr'?"),
        (GOOD.replace("objective:", "objectiv:"), (), "/config.yaml:5: field 'streams.0.objectiv': unknown; did you mean"),
        (GOOD, ("lr=1e-3",), "command line: field 'lr': unknown; did you mean 'training.lr'?"),
        (GOOD, ("objective=csft",), "command line: field 'objective': unknown; did you mean 'streams.0.objective'?"),
        (GOOD.replace("run: runs/x\n", ""), (), "/config.yaml: field 'run': missing"),
        (GOOD, ("training.batch_size=many",), "command line: field 'training.batch_size': "),
        (GOOD, ("training.lr",), "override 'training.lr': expected key=value"),
        (GOOD, ("streams.3.data=x",), "override 'streams.3.data=x': expected an index from 0 to 0, got '3'"),
        (GOOD, ("run.name=x",), "override 'run.name=x': 'run' is a single value"),
        (GOOD, ("training.lr=[",), "override 'training.lr=[': the value is not valid YAML"),
        (GOOD + "  lr: 2e-5\n", (), "/config.yaml:8: not valid YAML: key 'lr' stands twice"),
        (GOOD.replace("lr:", "[lr]:"), (), "/config.yaml:7: not valid YAML: expected a name before the colon"),
        (GOOD.replace("runs/x", "2026-13-01"), (), "/config.yaml:1: not valid YAML: month must be in 1..12; a text needs"),
        (GOOD.replace("runs/x", "[" * 3000 + "]" * 3000), (), "/config.yaml: not valid YAML: nested too deeply"),
        (GOOD, ("run=2026-13-01",), "override 'run=2026-13-01': the value is not valid YAML; a text with special signs"),
        (GOOD, ("training.lr=[[a]: 1]",), "override 'training.lr=[[a]: 1]': the value is not valid YAML"),
        (GOOD, ("training.seed=5 # five",), "field 'training.seed': expected a whole number, got '5 # five'"),
        (GOOD, ("streams=[]", "streams.0.data=x"), "'streams.0.data=x': expected no index, since the list is empty, got '0'"),
        ("- a\n", (), "/config.yaml: expected a mapping"),
        ("a: [", (), "/config.yaml:1: not valid YAML"),
        (GOOD.replace("lr: 1e-5", "lr: .nan"), (), "/config.yaml:7: field 'training.lr'"),
        (GOOD.replace("  - data", "   - data"), (), "/config.yaml:5: not valid YAML: the indentation or a bracket is wrong"),
        (GOOD.replace("runs/x", "[runs/x"), (), "/config.yaml:2: not valid YAML: the indentation or a bracket is wrong"),
        (GOOD.replace("runs/x", "runs: x"), (), "/config.yaml:1: not valid YAML: the indentation or a bracket is wrong"),
        (GOOD.replace("  lr", "\tlr"), (), "/config.yaml:7: not valid YAML: a tab stands here; indent with spaces"),
        (GOOD.replace("runs/x", "'runs/x"), (), "not valid YAML: a quote is opened and not closed"),
        (GOOD, ("streams=text",), "command line: field 'streams': expected a list, got 'text'"),
        (GOOD, ("lora=true",), "command line: field 'lora': expected settings by name, key: value, got true"),
        (GOOD, ("training.epochs=null",), "command line: field 'training.epochs': expected a number, got null"),
        (GOOD, ("report_to=[1]",), "command line: field 'report_to.0': expected a text, got 1"),
        (GOOD, ("training.lr=1", "training.lr=2"), "command line: 'training.lr=1' and 'training.lr=2' set the same; leave"),
        (GOOD, ("streams.0.data=x", "streams=[]"), "command line: 'streams.0.data=x' and 'streams=[]' set the same"),
        (GOOD, ("training.batch_size=0.5",), "'training.batch_size': expected a whole number, got 0.5"),
        (GOOD, ("training.seed=-1",), "command line: field 'training.seed': Input should be greater than or equal to 0"),
        (GOOD, ("training.seed=4294967296",), "field 'training.seed': Input should be less than 4294967296"),
        (GOOD, ("training.epochs=many",), "'training.epochs': expected a number, got 'many'"),
        (GOOD, ("training.packing=perhaps",), "'training.packing': expected true or false, got 'perhaps'"),
        (GOOD, ("trainig.lr=1",), "command line: field 'trainig': unknown; did you mean 'training'?"),
        ("run: x\nmodel: tiny:base\nstreams: []\n", (), "expected at least one stream"),
        (
            GOOD,
            ("streams.0.hold=true", "streams.0.objective=distill"),
            "/config.yaml:4: field 'streams.0': hold: is for prompts that the anchor answers, data: prompts:...; got rows.jsonl",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line(tmp_path: Path, text: str, overrides: tuple[str, ...], expected: str) -> None:
    said = complaint(tmp_path, text, *overrides)
    assert expected in said
    assert "{" not in said, "a whole section is not an answer"


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("lr: 1e-5", "lr: -1\n  epochs: 0")
    lines = complaint(tmp_path, text).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["/config.yaml:8", "/config.yaml:7"]


def test_a_wrong_item_does_not_make_its_list_too_short(tmp_path: Path) -> None:
    path = write(tmp_path, "run: runs/x\nattacks: [mixture]\ndefences: [sft]\nseeds: [0]\n")
    with pytest.raises(InputError) as error:
        load_config(MatrixConfig, path, ["seeds=[a]"])
    assert str(error.value) == "command line: field 'seeds.0': expected a whole number, got 'a'"


def test_an_attack_with_settings_is_one_name_in_a_list(tmp_path: Path) -> None:
    """YAML cuts at the comma."""
    path = write(tmp_path, "run: runs/x\nattacks: [mixture@task=sql,share=0.05,epochs=3, backdoor]\ndefences: [sft]\n")
    names = ("mixture@task=sql,share=0.05,epochs=3", "backdoor")
    assert load_config(MatrixConfig, path).attacks == names
    assert load_config(MatrixConfig, path, [f"attacks=[backdoor,{names[0]}]"]).attacks == names[::-1]
    assert load_config(MatrixConfig, path, ["attacks=[backdoor,share=1]"]).attacks == ("backdoor", "share=1")


def test_a_misspelt_key_is_told_before_what_is_missing(tmp_path: Path) -> None:
    lines = complaint(tmp_path, GOOD.replace("runs/x", "!required a folder"), "trainig.lr=1").splitlines()
    assert lines == [
        "command line: field 'trainig': unknown; did you mean 'training'?",
        "/config.yaml:1: field 'run': add run=VALUE to the command, a folder",
    ]


@pytest.mark.parametrize(
    ("word", "known", "nearest"),
    [
        ("adamm", ("adalomo", "adamw_torch", "adamw_torch_fused"), "; did you mean 'adamw_torch'?"),
        ("adamw_torch_fusd", ("adamw_torch", "adamw_torch_fused"), "; did you mean 'adamw_torch_fused'?"),
        ("csf", ("sft", "csft", "csft_pa"), "; did you mean 'csft'?"),
        ("foo", ("bar", "barn_yard"), ""),
        ("foo", (), ""),
    ],
)
def test_the_nearest_word(word: str, known: tuple[str, ...], nearest: str) -> None:
    assert did_you_mean(word, known) == nearest


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_config(TrainConfig, tmp_path / "nowhere.yaml")


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5), st.integers(20, 200))
def test_a_step_is_shared_out_without_loss(shares: list[float], batch_size: int) -> None:
    try:
        rows = rows_per_step(batch_size, shares)
    except ValueError:
        assert min(shares) / sum(shares) * batch_size < 1
        return
    assert sum(rows) == batch_size
    for share, count in zip(shares, rows, strict=True):
        assert abs(count - batch_size * share / sum(shares)) < 1


def test_a_file_takes_the_settings_of_another_and_replaces_some(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "below.yaml").write_text("include: lowest.yaml\n" + GOOD)
    (tmp_path / "parts" / "lowest.yaml").write_text("training: {batch_size: 4, lr: 1.0}\n")
    text = "include: parts/below.yaml\nrun: runs/y\ntraining:\n  seed: 3\n"
    config = load_config(TrainConfig, write(tmp_path, text), ["streams.0.objective=sft"])
    assert (config.run, config.model.name, config.streams[0].objective) == ("runs/y", "tiny:aligned", "sft")
    assert (config.training.batch_size, config.training.lr, config.training.seed) == (4, 1e-5, 3)


def test_mistakes_in_an_included_file_name_that_file(tmp_path: Path) -> None:
    (tmp_path / "below.yaml").write_text(GOOD.replace("lr:", "lrr:").replace("run: runs/x", "run: !required a folder"))
    told = complaint(tmp_path, "include: below.yaml\n")
    assert told.splitlines()[-1] == "/below.yaml:1: field 'run': add run=VALUE to the command, a folder"
    assert complaint(tmp_path, "include: below.yaml\nrun: x\n").startswith(
        "/below.yaml:7: field 'training.lrr': unknown"
    )
    assert (
        complaint(tmp_path, "include: [a]\n")
        == "/config.yaml:1: field 'include': expected the name of a file, got ['a']"
    )
    assert complaint(tmp_path, "include: gone.yaml\n").endswith("/gone.yaml: no such file")
    assert complaint(tmp_path, "include: config.yaml\n").endswith("field 'include': config.yaml includes itself")


@pytest.mark.parametrize(
    ("field", "overrides", "place"),
    [
        ("streams.0.data", (), "/config.yaml:4: "),
        ("streams.0.vet", (), "/config.yaml:4: "),  # not set: where its stream begins
        ("training.lr", ("training.lr=1",), "command line: "),
        ("streams.0.options.beta", ("streams.0.options={beta: 1}",), "command line: "),
        ("lora", (), "/config.yaml: "),
    ],
)
def test_a_mistake_that_is_seen_later_names_its_place_too(
    field: str, overrides: tuple[str, ...], place: str, tmp_path: Path
) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(InputError) as error, naming_place(path, overrides):
        raise FieldError(field, "no good")
    assert str(error.value) == f"{tmp_path}{place}field '{field}': no good".replace(f"{tmp_path}command", "command")
