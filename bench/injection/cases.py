"""Tasks and attacks, read from the files in `data/`.

A family of tasks is one text with several variants, which fill its braces. Everything that a model does to solve a
task is written there, and what must be different in the world afterwards.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from bench.injection.domains import bank, code, mail, shop
from bench.injection.world import Pattern, Tables, World

DATA = Path(__file__).parent / "data"
TOOLS: Mapping[str, tuple[Any, ...]] = {
    "mail": mail.TOOLS,
    "bank": bank.TOOLS,
    "shop": shop.TOOLS,
    "code": code.TOOLS,
}
DOMAINS = tuple(TOOLS)
OTHER_WORDS = "/in-other-words"
AGAIN = "/in-other-words-again"
READS = "/read-in-other-words"


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a scripted model, or one for each of several values."""

    do: str
    arguments: dict[str, Any] = field(default_factory=dict, name="with")
    each: str = ""
    """Leads to a list: the call is made for each of its values, which is `$it`."""


class Task(Struct, frozen=True, kw_only=True):
    """What an honest person asks for, how it is done, and what is different afterwards."""

    id: str
    domain: str
    prompt: str
    steps: tuple[Step, ...]
    expect: tuple[Pattern, ...]


class Domain(Struct, frozen=True, kw_only=True):
    """One domain as its file describes it."""

    name: str
    about: str
    state: Tables
    outside: dict[str, tuple[str, ...]]
    """The fields that strangers write, by table."""
    tasks: tuple[Task, ...]

    def world(self, placed: tuple[Placed, ...] = ()) -> World:
        """A new world; with an attack, one in which its words stand."""
        tables = {table: {id: dict(row) for id, row in rows.items()} for table, rows in self.state.items()}
        for each in placed:
            each.put_into(tables)
        return World(tables)


class Placed(Struct, frozen=True):
    """Words of an attacker in one field, behind what stood there."""

    table: str
    id: str
    field: str
    text: str

    def put_into(self, tables: Tables) -> None:
        row = tables[self.table].setdefault(self.id, {"id": self.id})
        before = row.get(self.field, "")
        gap = "\n\n" if "\n" in str(before) or len(str(before)) > 60 else " "
        row[self.field] = f"{before}{gap}{self.text}" if before else self.text


@cache
def domain(name: str) -> Domain:
    read = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    return Domain(
        name=name,
        about=read["about"],
        state=read["state"],
        outside={table: tuple(fields) for table, fields in read["outside"].items()},
        tasks=tuple(task for family in read["family"] for task in _tasks(name, family)),
    )


def all_tasks() -> list[Task]:
    """Every task, and those that are told in other words besides."""
    tasks = [task for name in DOMAINS for task in domain(name).tasks]
    return [*tasks, *paraphrased(tasks)]


def paraphrased(tasks: Sequence[Task]) -> list[Task]:
    """Tasks in words that the engine was not made with: two sets of them, and some that only want to read."""
    told = tomllib.loads((DATA / "paraphrases.toml").read_text(encoding="utf-8"))
    by_id = {task.id: task for task in tasks}
    return [
        replace(by_id[id], id=f"{id}{ending}", prompt=prompt)
        for key, ending in (("prompts", OTHER_WORDS), ("again", AGAIN), ("reads", READS))
        for id, prompt in told[key].items()
    ]


def _tasks(name: str, family: dict[str, Any]) -> list[Task]:
    found = []
    for number, variant in enumerate(family["variants"], 1):
        told = _put({key: family[key] for key in ("prompt", "steps", "expect")}, variant)
        given = {**told, "id": f"{name}/{family['id']}/{number}", "domain": name}
        found.append(convert(given, Task))
    return found


def _put(value: Any, variant: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        whole = re.fullmatch(r"\{(\w+)\}", value)
        if whole is not None and whole[1] in variant:
            return _put(variant[whole[1]], {})
        return re.sub(r"(?<!\$)\{(\w+)\}", lambda found: str(variant.get(found[1], found[0])), value)
    if isinstance(value, Mapping):
        return {key: _put(each, variant) for key, each in value.items()}
    if isinstance(value, list):
        return [_put(each, variant) for each in value]
    return value
