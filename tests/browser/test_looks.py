"""How the main parts look, against pictures kept here.

Fonts differ between machines and a whole picture compared pixel by pixel would only test the fonts. So text is made
transparent before a picture is taken: what is left (cells and their heat, lines, marks, whiskers, the front) is placed
by line heights and view boxes that no font changes, and can be compared closely. Where text is the picture, in the
microscope, the pixels under each token are checked against its level instead. `HOLDFAST_WRITE_BASELINES=1` writes the
pictures anew: look at them before keeping them.
"""

import io
import os
from itertools import pairwise
from pathlib import Path

import pytest

image = pytest.importorskip("PIL.Image", reason="needs pillow: pip install pillow")
chops = pytest.importorskip("PIL.ImageChops", reason="needs pillow: pip install pillow")

BASELINES = Path(__file__).parent / "baselines"
PARTS = {
    "matrix": ".matrix tbody",
    "plane": "#plane figure:first-child svg",
    "depth": "#depth svg[data-chart=k2]",
    "left": "#depth svg[data-chart=b2]",
    "training": "#training svg[data-chart=t0]",
    "audit": "#audit tr:nth-child(2) svg",
}
MAX_DIFFERS = 0.003
NO_TEXT = "* { color: transparent !important } svg text { fill: transparent !important } svg * { transition: none }"
KEEP_SERIES = (
    " ".join(f".s{i}, .s{i} * {{ color: var(--s{i}) !important }}" for i in range(6))
    + " .before { color: var(--muted) !important }"
)


def picture(page, selector):
    page.evaluate(
        "(text) => { const sheet = new CSSStyleSheet(); sheet.replaceSync(text); document.adoptedStyleSheets = [sheet]; }",
        NO_TEXT + KEEP_SERIES,
    )
    shot = page.locator(selector).screenshot(animations="disabled")
    return image.open(io.BytesIO(shot)).convert("RGB")


def share_that_differs(one, other, by: int = 48) -> float:
    """The share of pixels of which some channel differs by more than antialiasing does; 1 when the sizes do."""
    if max(abs(a - b) for a, b in zip(one.size, other.size, strict=True)) > 3:
        return 1.0
    size = (min(one.width, other.width), min(one.height, other.height))
    difference = chops.difference(one.crop((0, 0, *size)), other.crop((0, 0, *size)))
    worst = chops.lighter(chops.lighter(*difference.split()[:2]), difference.split()[2])
    return sum(worst.histogram()[by:]) / (size[0] * size[1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_as_it_did(open_page, demo, scheme):
    page = open_page(demo, scheme).page
    differs = {}
    for part, selector in PARTS.items():
        now, kept = picture(page, selector), BASELINES / f"{part}-{scheme}.png"
        if os.environ.get("HOLDFAST_WRITE_BASELINES"):
            kept.parent.mkdir(exist_ok=True)
            now.quantize(64).save(kept, optimize=True)
        differs[part] = share_that_differs(now, image.open(kept).convert("RGB"))
    assert max(differs.values()) < MAX_DIFFERS, differs


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("matrix", "document.querySelector('#measure input[value=over_refusal]').click()"),
        ("matrix", "document.querySelector('thead button').click(); document.querySelector('thead button').click()"),
        ("plane", "for (const mark of document.querySelectorAll('.mark')) mark.remove()"),
        ("left", "document.querySelector('#depth [data-chart=b2] .before').remove()"),
        ("audit", "document.querySelector('#audit tr:nth-child(2) .bound').remove()"),
        ("depth", "document.querySelectorAll('#depth [data-chart=k2] .line')[1].remove()"),
    ],
)
def test_the_comparison_can_fail(open_page, demo, part, change):
    """A measure, an order, the marks or one line changed: each is more than the comparison lets pass."""
    page = open_page(demo).page
    page.evaluate(change)
    kept = image.open(BASELINES / f"{part}-light.png").convert("RGB")
    assert share_that_differs(picture(page, PARTS[part]), kept) > MAX_DIFFERS


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_token_has_the_colour_of_its_level(open_page, demo, scheme):
    page = open_page(demo, scheme).page
    page.locator("#figure input[value=kl]").check(force=True)
    ramp = page.evaluate(
        "[...Array(9).keys()].map((i) => getComputedStyle(document.documentElement).getPropertyValue(`--w${i}`))"
    )
    line = page.locator(".tokens").first
    shot = image.open(io.BytesIO(line.screenshot())).convert("RGB")
    box = line.bounding_box()
    for token in page.locator(".tokens").first.locator(".tok").all()[:8]:
        level = int(token.get_attribute("class").split(" l")[1][0])
        place = token.bounding_box()
        pixel = shot.getpixel((int(place["x"] - box["x"] + place["width"] / 2), int(place["y"] - box["y"] + 2)))
        assert pixel == pytest.approx([int(ramp[level].strip()[i : i + 2], 16) for i in (1, 3, 5)], abs=3)


CONTRASTS = """(selector) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = rgba(colour).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return rgba(colour)[3] ? colour : ground(element.parentElement);
  };
  return [...document.querySelectorAll(selector)].filter((e) => e.getClientRects().length).map((element) => {
    const style = getComputedStyle(element), ink = element.tagName === "text" ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(element))].sort((x, y) => x - y);
    return [(b + 0.05) / (a + 0.05), element.outerHTML.slice(0, 80)];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(open_page, demo, scheme):
    page = open_page(demo, scheme).page
    for selector in (".face", ".tokens .tok", ".chart text", "p, li, th, td, label span, summary span, pre"):
        found = page.evaluate(CONTRASTS, selector)
        assert len(found) > 5
        assert min(found)[0] >= 4.5, min(found)


def test_parts_stand_one_below_the_other(open_page, demo):
    page = open_page(demo).page
    boxes = [section.bounding_box() for section in page.locator("main > section").all()]
    assert len(boxes) == 7
    for above, below in pairwise(boxes):
        assert above["y"] + above["height"] <= below["y"]
        assert above["x"] == below["x"]
        assert above["height"] > 60
