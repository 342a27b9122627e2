"""The prompts that come with the package: enough of them, no two alike, nothing of the benchmarks that measure with."""

import json
from csv import DictReader
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.data.default_prompts import default_prompts, find_kind, prompts_by_category
from holdfast.data.near_twins import Seen, content_words, twin_groups

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
    for kind in ("safety", "keep"):
        twins = [p for p in default_prompts(find_kind(kind)) if seen.nearest(content_words(p))[0] >= 0.6]
        assert twins == []


def test_a_wrong_kind_is_told() -> None:
    with pytest.raises(InputError, match="did you mean 'safety'"):
        find_kind("prompts:safty")
