"""The colours of the page can be read, in both themes."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.desk.page.page_sources import sources

BASE = sources(".css")["style/base.css"]
_ROOT = re.compile(r":root \{(?P<values>[^}]*)\}")
_VALUE = re.compile(r"--([\w-]+):\s*([^;]+);")
_PAIR = re.compile(r"light-dark\((?P<light>#\w+), (?P<dark>#\w+)\)")
GROUNDS = ("ground", "card", "sunk")
INKS = ("ink", "muted", "accent", "bad", "warn", "good", "query", "keyword", "string", "number")
PAIRS = [
    *product(INKS, GROUNDS),
    *((name, f"{name}-tint") for name in ("bad", "warn", "good", "query")),
    *((name, "tint") for name in ("accent", "ink", "muted")),
    ("on-accent", "accent"),
]


def _themes() -> dict[str, dict[str, str]]:
    """Each value as it is in either theme; what has no two is the same in both."""
    values = dict(_VALUE.findall(_ROOT.search(BASE)["values"]))  # type: ignore[index]
    pairs = {name: _PAIR.fullmatch(value) for name, value in values.items()}
    return {
        theme: {name: value if (two := pairs[name]) is None else two[theme] for name, value in values.items()}
        for theme in ("light", "dark")
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_ink_has_enough_contrast_on_every_ground(theme: str) -> None:
    colours = _themes()[theme]
    weak = {
        (ink, ground): round(ratio, 2)
        for ink, ground in PAIRS
        if (ratio := _contrast(colours[ink], colours[ground])) < 4.5
    }
    assert weak == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_edge_of_a_field_is_seen(theme: str) -> None:
    colours = _themes()[theme]
    assert min(_contrast(colours["strong-line"], colours[ground]) for ground in GROUNDS) >= 3


def test_every_colour_that_is_used_has_a_value() -> None:
    known = set(_themes()["light"])
    used = {name for text in sources(".css").values() for name in re.findall(r"var\(--([\w-]+)\)", text)}
    given = {name for text in sources(".css", ".js").values() for name in re.findall(r"--([\w-]+)[\"']?:", text)}
    assert used - known - given == set()


def _contrast(one: str, other: str) -> float:
    """As WCAG 2 reckons it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
