"""The requirements and the tests that prove them agree; what is not proven says why."""

from __future__ import annotations

import ast
import functools
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = {
    requirement["id"]: requirement
    for requirement in tomllib.loads((ROOT / "requirements.toml").read_text())["requirement"]
}


@functools.cache
def marked() -> dict[str, list[str]]:
    """Requirement ids with the places that mark them, read from the tests' source."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text()
        if "requirement(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        found.setdefault(str(argument.value), []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_every_mark_names_a_requirement() -> None:
    assert {id: places for id, places in marked().items() if id not in REQUIREMENTS} == {}


def test_every_requirement_is_proven_by_a_test_or_has_a_gap_with_a_reason() -> None:
    proven = marked()

    assert [id for id, it in REQUIREMENTS.items() if id not in proven and not it.get("gap", "").strip()] == []


def test_what_people_see_is_proven_where_they_see_it() -> None:
    """In the browser and, where the sentence names it, in the terminal."""
    seen = {
        "converser.alerts": {"tests/desk/page", "tests/desk/tui"},
        "hearthnet.confirmation": {"tests/desk/page"},
        "hearthnet.progress": {"tests/desk/page"},
        "hearthnet.telemetry": {"tests/desk/page", "tests/cli", "tests/node/server"},
    }
    proven = {id: {place.rpartition("/")[0] for place in marked()[id]} for id in seen}

    assert {id: places - proven[id] for id, places in seen.items() if places - proven[id]} == {}


def test_every_requirement_says_what_and_where_from() -> None:
    assert [id for id, it in REQUIREMENTS.items() if not (it["says"].endswith(".") and it["seed"])] == []
