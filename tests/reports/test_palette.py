"""The colours of page.css, measured: text can be read, series can be told apart, also by those who see fewer colours."""

import itertools
import re
from importlib.resources import files

import pytest

CSS = files("holdfast.reports").joinpath("assets/page.css").read_text(encoding="utf-8")
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in CSS.split("@media screen", 1)[:2])
THEMES = [pytest.param(LIGHT, id="light"), pytest.param(LIGHT | DARK, id="dark")]

# Machado et al. 2009, severity 1, on linear RGB.
SIGHT = {
    "common": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    """WCAG 2."""
    dark, light = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x), strict=True)) for x in (one, other)
    )
    return (light + 0.05) / (dark + 0.05)


def oklab(rgb):
    r, g, b = (max(0.0, part) for part in rgb)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def apart(one, other, sight):
    seen = [
        oklab([sum(m * c for m, c in zip(row, linear(x), strict=True)) for row in SIGHT[sight]]) for x in (one, other)
    ]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme):
    for ground in ("paper", "raised", "note"):
        assert contrast(theme["ink"], theme[ground]) >= 10
        assert contrast(theme["muted"], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_figures_on_every_heat_can_be_read(theme):
    for ramp in "wc":
        for level in range(9):
            ink = theme["on-faint" if level < 6 else f"on-{ramp}6" if level == 6 else "on-strong"]
            assert contrast(ink, theme[f"{ramp}{level}"]) >= 4.5, f"{ramp}{level}"


@pytest.mark.parametrize("theme", THEMES)
def test_heat_only_rises(theme):
    """Each level is further from the paper than the one before: the order survives a grey printer."""
    for ramp in "wc":
        steps = [contrast(theme[f"{ramp}{level}"], theme["paper"]) for level in range(9)]
        assert steps == sorted(steps)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_the_three_outcomes_can_be_told_apart(theme, sight):
    """They touch in one bar, so they are further apart than series must be."""
    colours = [theme[word] for word in ("refused", "missed", "complied")]
    assert min(contrast(colour, theme["paper"]) for colour in colours) >= 3
    assert min(apart(a, b, sight) for a, b in itertools.combinations(colours, 2)) >= 0.13


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_series_can_be_told_apart(theme, sight):
    colours = [theme[f"s{i}"] for i in range(6)]
    assert min(contrast(colour, theme["paper"]) for colour in colours) >= 3
    closest = min((apart(a, b, sight), a, b) for a, b in itertools.combinations(colours, 2))
    assert closest[0] >= 0.09, closest  # a just noticeable difference is about 0.02
