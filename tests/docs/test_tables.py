"""The tables of the pages say what the code does."""

from __future__ import annotations

import datetime
import enum
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from handrail.core.errors import OUTCOMES
from handrail.core.redact import Secret
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import ToolOptions
from tests.docs.pages import ROOT

_CELL = re.compile(r"(?<!\\)\|")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Point:
    x: int
    y: int = 0


TYPES: dict[str, Any] = {
    "Any": Any,
    "Colour": Colour,
    "Literal": Literal,
    "Path": Path,
    "Point": Point,
    "Secret": Secret,
    "UUID": UUID,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "timedelta": datetime.timedelta,
}


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    below = text.partition(f"\n{heading}\n")[2].splitlines()
    start = next(index for index, line in enumerate(below) if line.startswith("|"))
    table = []
    for line in below[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip().replace("\\|", "|") for cell in _CELL.split(line)[1:-1]])
    return table


def schema_of_parameter(annotation: Any) -> Any:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    return ToolDefinition.from_function(function).input_schema["properties"]["value"]


def test_the_table_of_types_shows_the_schema_of_each() -> None:
    table = rows("tools.md", "### Types")
    shown = {python: json.loads(schema.strip("`")) for python, schema, _ in table}

    made = {python: schema_of_parameter(eval(python.split("`")[1], TYPES)) for python in shown}

    assert len(table) > 20
    assert made == shown


def test_the_table_of_outcomes_has_all_of_them_in_order() -> None:
    assert tuple(outcome.strip("`") for outcome, *_ in rows("calls.md", "## Outcomes")) == OUTCOMES


def test_the_words_for_a_model_are_the_same_in_the_table_and_on_the_page() -> None:
    page = (ROOT / "docs" / "calls.md").read_text(encoding="utf-8")
    read = {outcome.strip("`"): words for outcome, _, words in rows("calls.md", "## Outcomes")}

    quoted = [words for outcome in read for words in re.findall(r"`([^`]+)`", read[outcome])]

    assert quoted
    assert [words for words in quoted if page.count(words) < 2] == []


def test_the_reference_has_every_option_of_tool_and_no_other() -> None:
    named = [row[0].strip("`") for row in rows("reference/tools.md", "## Options of `@tool`")]

    assert sorted(named) == sorted(ToolOptions.__annotations__)
