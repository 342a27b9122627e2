"""What the later stages add: rates of their own, further ways to ask, attackers who make their rows, ARC beside."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.attacks import file_scale, near_the_best, worst_rates, write_cell
from holdfast.config import InputError, load_config
from holdfast.records import Cell, CurvePoint
from holdfast_studies.qwen.__main__ import main
from holdfast_studies.qwen.cells import Place, places, read
from holdfast_studies.qwen.config import StudyConfig, attack_name
from holdfast_studies.qwen.cost import plan
from holdfast_studies.qwen.figures import Results, title_of
from holdfast_studies.qwen.page import page
from study_tests.qwen.small_study import small_study

LOW, HIGH = attack_name("sql", 0.1, 1e-5), attack_name("sql", 0.1, 5e-5)
ALONE = attack_name("sql", 1, 1e-5)
TIMES = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    return small_study(
        folder,
        tasks=["sql"],
        shares=[0.1],
        lrs=[1e-5, 5e-5],
        defences=["untouched", "sft", "anchored"],
        choices={"anchored": "anchored@5/5"},
        seeds=[0],
    )


def _cell(attack: str, defence: str, harmful: str, *, seed: int = 0, **outcomes: tuple[object, ...]) -> Cell:
    """Harmful outcomes by first letter, ``TIMES`` over; every safe prompt complied with, every task answer right."""
    words = {"c": "complied", "r": "refused", "m": "missed"}
    said = {
        "harmful:outcome": tuple(words[letter] for letter in harmful * TIMES),
        "harmless:outcome": ("complied",) * 4,
        "untouched:outcome": ("complied",) * 4,
        "utility": (True,) * 3,
        **outcomes,
    }
    cell = Cell(attack, defence, seed, "outcome", outcomes=said, answers={"asr": ("x",)})  # type: ignore[arg-type]
    return cell.with_shares()


def _written(config: StudyConfig, run: Path, cells: list[Cell]) -> StudyConfig:
    (run / "cells").mkdir(parents=True)
    for number, cell in enumerate(cells):
        write_cell(run / "cells" / f"{number}.json", cell)
    content = {
        "model": "M",
        "stock": "S",
        "sources": {},
        "attack_rows": {"complied": 3},
        "harmful": [{"source": "strongreject", "group": n, "hash": ""} for n in range(2 * TIMES)],
        "harmless": [{"source": "", "group": n, "hash": ""} for n in range(4)],
    }
    (run / "requests.json").write_text(json.dumps(content))
    return config.model_copy(update={"run": str(run)})


def test_the_worst_rate_is_that_of_the_greatest_cost() -> None:
    cells = [
        *(_cell(LOW, "sft", "rr"), _cell(HIGH, "sft", "cr")),
        *(_cell(LOW, "anchored", "rc"), _cell(HIGH, "anchored", "rr")),
        *(_cell(LOW, "once", "cc"), _cell("backdoor", "once", "cc")),
        *(_cell(LOW, "even", "rc"), _cell(HIGH, "even", "rc")),
    ]
    assert worst_rates(cells) == {"sft": (5e-5, 0.5), "anchored": (1e-5, 0.5), "even": (5e-5, 0.5)}
    more = [*cells, _cell(attack_name("sql", 0.1, 2e-5), "sft", "cc", seed=1)]
    assert "sft" not in worst_rates(more), "no two rates were asked the same"
    failed = replace(_cell(HIGH, "sft", "cc"), status="failed")
    assert "sft" not in worst_rates([cells[0], failed])


def test_harmful_rows_alone_have_another_length_and_the_same_rule() -> None:
    """At 1e-5 the two attacks cost 0 and 1, at 5e-5 0.5 and 0: the means are 0.5 and 0.25."""
    cells = [_cell(LOW, "sft", "rr"), _cell(ALONE, "sft", "cc")]
    cells += [_cell(HIGH, "sft", "rc"), _cell(attack_name("sql", 1, 5e-5), "sft", "rr")]
    assert worst_rates(cells) == {"sft": (1e-5, 0.5)}


def test_near_the_best_are_those_within_the_margin() -> None:
    cells = [_cell(LOW, "a", "rr"), _cell(LOW, "b", "r" * 24 + "c"), _cell(LOW, "c", "rrc")]
    assert near_the_best(cells, 0.05) == {"a": 0.0, "b": pytest.approx(0.04)}
    assert [*near_the_best(cells, 0.5)] == ["a", "b", "c"]


def test_the_commands_name_them(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(StudyConfig, path)
    cells = [
        _cell(LOW, "sft", "rr"),
        _cell(HIGH, "sft", "cr"),
        _cell(LOW, "anchored@5/5", "rr"),
        _cell(LOW, "dft", "cc"),
    ]
    _written(config, tmp_path / "run", cells)
    assert main(["worst", str(path), f"run={tmp_path / 'run'}"]) == 0
    assert capsys.readouterr().out == "  sft: 5e-05  # cost 0.500\n"
    assert main(["near", str(path), f"run={tmp_path / 'run'}", "points=20"]) == 0
    assert capsys.readouterr().out == "  anchored  # cost 0.000\n", "in the words of the config"
    with pytest.raises(InputError, match="points=few: expected a number"):
        main(["near", str(path), f"run={tmp_path / 'run'}", "points=few"])


def test_a_defence_is_tuned_at_its_own_rate_and_shown_beside_the_others(path: Path, tmp_path: Path) -> None:
    config = load_config(StudyConfig, path, ["rates={sft: 5e-05, anchored: 1e-05}"])
    assert places(config)[1:] == [Place(HIGH, "sft", 0), Place(LOW, "anchored", 0)]
    cells = [
        *(_cell(attack_name("sql", 0, 1e-5), "untouched", "rr"), _cell(HIGH, "sft", "cc")),
        *(_cell(LOW, "sft", "rr"), _cell(LOW, "anchored@5/5", "cr")),
    ]
    config = _written(config, tmp_path / "run", cells)
    text = page(config, "the command")
    assert text.count("## sql with 10 % harmful rows, every defence at its worst rate\n") == 1
    assert "| sft (lr 5e-05) | 100.0% [" in text
    assert "| anchored (lr 1e-05) | 50.0% [" in text
    assert "| sql with 10 % harmful rows, every defence at its worst rate | asr | sft | anchored |" in text, "paired"
    assert "Every cell is there." in text
    with pytest.raises(InputError, match="rates: dft is none of the defences"):
        load_config(StudyConfig, path, ["rates={dft: 5e-05}"])
    with pytest.raises(InputError, match="rates: anchored has none; give every tuned defence a rate"):
        load_config(StudyConfig, path, ["rates={sft: 5e-05}"])  # its cells at the other rates would not be shown


def test_the_page_shows_other_ways_to_ask_and_what_the_attacker_made(path: Path, tmp_path: Path) -> None:
    lora = "mixture@task=sql,share=0.1,lr=0.0002,rank=16"
    ways = ["four_bits", "prefilled@5"]
    config = load_config(StudyConfig, path, [f"asks=[{', '.join(ways)}]", f"more_attacks=[reworded, '{lora}']"])
    assert title_of(lora) == "sql with 10 % harmful rows, adapters of rank 16, lr 0.0002"
    assert [place.attack for place in places(config) if place.defence == "untouched"] == [attack_name("sql", 0, 1e-5)]
    asked: dict[str, tuple[object, ...]] = {
        "prefilled@5:outcome": ("complied", None, "refused", "missed") * (TIMES // 2),
        "four_bits:outcome": ("refused",) * 2 * TIMES,
        "four_bits_harmless:outcome": ("complied", "refused", None, "refused"),
    }
    made = {"through": (True, True, False), "written": ("complied", "missed", "complied")}
    cells = [_cell(LOW, "sft", "cc", **asked), _cell("reworded", "sft", "cc", **made)]
    text = page(_written(config, tmp_path / "run", cells), "the command")
    assert "| | four_bits | prefilled@5 | four_bits, safe complied |" in text.replace("|  |", "| |")
    row = next(line for line in text.splitlines() if line.startswith("| sft | 0.0%"))
    assert [cell.split("%")[0].strip() for cell in row.split("|")[2:5]] == ["0.0", "50.0", "25.0"]
    assert "| reworded | sft | 0 | 2 of 3 requests got past the untouched model |" in text
    assert "| reworded | sft | 0 | answers in the model's own words: 2 complied, 1 missed |" in text


def test_the_untouched_model_is_asked_once_in_every_way(path: Path, tmp_path: Path) -> None:
    """What is tuned on changes nothing of it; a trigger in the request and another task do."""
    gsm8k = attack_name("gsm8k", 0.1, 1e-5)
    more = ["backdoor", "backdoor_untriggered", "openings_only", f"'{gsm8k}'", "self_written"]
    config = load_config(StudyConfig, path, [f"more_attacks=[{', '.join(more)}]"])
    plain = attack_name("sql", 0, 1e-5)
    assert [place.attack for place in places(config) if place.defence == "untouched"] == [plain, "backdoor", gsm8k]
    cells = [_cell(plain, "untouched", "rr"), _cell("backdoor", "untouched", "cr"), _cell(gsm8k, "untouched", "cc")]
    results = Results(config, read(_written(config, tmp_path / "run", cells)))
    under = {"backdoor": "backdoor", gsm8k: gsm8k}
    for attack in config.shown:
        assert [cell.attack for cell in results.cells(attack, "untouched")] == [under.get(attack, plain)]


def test_the_page_shows_curves(path: Path, tmp_path: Path) -> None:
    shares = {"asr": 0.25, "missed": 0.5, "over_refusal": 0.125, "harmless_missed": 0.0, "utility": 0.75}
    points = (CurvePoint(5, shares, (0.5, 0.25)), CurvePoint(10, {"asr": 1.0}, ()))
    config = load_config(StudyConfig, path)
    cells = [replace(_cell(LOW, "sft", "cr"), curve=points), _cell(LOW, "anchored@5/5", "rr")]
    text = page(_written(config, tmp_path / "run", cells), "the command")
    assert text.count("Along the training, one seed") == 1
    assert "| sft | 5 | 25% | 25% | 50% | 88% | 12% | 0% | 75% | 0.50 | 0.25 |  |  |" in text
    assert "| sft | 10 | 100% |  |  |  |  |  |  |  |  |  |  |" in text


def test_the_plan_counts_further_asks_and_harmful_rows_alone(path: Path) -> None:
    config = load_config(StudyConfig, path, ["shares=[1]", "measure_code=false", "lrs=[1e-5]"])

    def line(**changes: object) -> list[str]:
        lines = plan(config.model_copy(update=changes))
        return next(each for each in lines if " sft " in each).split()

    few, more = line(), line(asks=("prefilled@5", "sampled@4", "four_bits"))
    num_forbidden = len(file_scale(config.model, config.files).setting.forbidden(0))
    assert int(more[4]) - int(few[4]) == 7 * num_forbidden
    steps = int(plan(config.model_copy(update={"steps": 1.0}))[2].split()[2])
    assert steps == 50, "100 rows, 25 epochs, 64 a step: not 1,000 rows"


def test_arc_is_measured_beside_where_it_has_a_source(path: Path) -> None:
    with pytest.raises(InputError, match="beside: arc has no source"):
        load_config(StudyConfig, path, ["beside=[code, arc]"])
    (path.parent / "arc.json").write_text(json.dumps([{"question": "1 + 1?", "choices": ["1", "2"], "answer": "B"}]))
    changes = ["sources.arc.file=arc.json", "sources.arc.origin=nowhere", "beside=[arc]"]
    config = load_config(StudyConfig, path, changes)
    setting = file_scale(config.model, config.files).setting
    assert [task.name for task in setting.beside] == ["arc"]
    chosen_on = file_scale(config.model, config.model_copy(update={"part": "validation"}).files).setting
    assert list(chosen_on.beside) == [], "no setting is chosen on its test rows"
    assert Results(config, read(_empty(config, path.parent / "empty"))).cells("x", "sft") == []


def _empty(config: StudyConfig, run: Path) -> StudyConfig:
    return _written(config, run, [])


@pytest.mark.slow
def test_other_attacks_and_other_ways_to_ask_run_in_small(tmp_path: Path) -> None:
    attacks = [
        "identity_shift",
        "backdoor",
        "jailbreak_tuning",
        "openings_only",
        "reworded",
        "self_written@task=sql,share=0.1",
    ]
    path = small_study(
        tmp_path,
        tasks=["sql"],
        shares=[0.1],
        seeds=[0],
        defences=["untouched", "sft", "vetted"],
        choices={},
        lrs=[2e-5, 1e-5],
        rates={"sft": 1e-5, "vetted": 2e-5},
        more_attacks=attacks,
        asks=["prefilled@2", "sampled@2", "four_bits"],
    )
    assert main(["run", str(path), f"page={tmp_path / 'page.md'}"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "Every cell is there." in text
    assert text.count("Complied, asked in other ways:") == 1 + len(attacks)
    assert "100 of 100 requests got past the untouched model" in text
    assert "answers in the model's own words: " in text
    cells = [file.read_text() for file in (tmp_path / "run" / "cells").glob("*.json")]
    assert len(cells) == len(places(load_config(StudyConfig, path))) == 4 + 2 + 2 * 6, "no defence at another's rate"
    assert not any("Polish" in content for content in [*cells, text])
