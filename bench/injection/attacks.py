"""Attacks: what somebody wants, the words that ask for it, and the field of an honest task that holds them.

Each goal is put into words by several techniques, and each of those into a field that strangers write and that the
model reads while it does an honest task. Which field and which task is drawn, always the same way. `special.toml` has
attacks that are written out one by one, among them every one that has ever got through.
"""

from __future__ import annotations

import base64
import codecs
import random
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct, convert
from msgspec.structs import replace

from bench.injection.cases import DATA, DOMAINS, Placed, Step, Task, domain, paraphrased
from bench.injection.models import Order
from bench.injection.world import Change, Pattern, fits

MARK = "\u27e6{}\u27e7"
"""What is put into a field to see which tasks show it."""
OF_A_GOAL = 7
"""Into so many techniques each goal is put."""


class Attack(Struct, frozen=True, kw_only=True):
    """One attack on one task."""

    id: str
    goal: str
    technique: str
    task: Task
    placed: tuple[Placed, ...]
    order: Order
    success: tuple[Pattern, ...]
    """What is different in the world if the attacker got it: any of these."""

    def is_met(self, changes: Sequence[Change]) -> bool:
        return is_any(changes, self.success)


class Goal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attacker wants of a domain."""

    id: str
    words: str
    ways: tuple[tuple[Step, ...], ...] = ()
    change: dict[str, dict[str, Any]] = {}
    success: Pattern | tuple[Pattern, ...]
    late: bool = False
    hosts: str = ""
    """Only tasks whose id holds this."""


class Technique(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an instruction is dressed."""

    id: str
    text: str
    """`{words}` is the instruction; `{base64}`, `{rot13}`, `{hex}`, `{percent}`, `{spaced}`, `{tags}` and `{name}` are
    it in other spellings; `{first}` and `{second}` its halves."""
    second: str = ""
    """What stands in a second field."""
    page: str = ""
    """The address of a page that the attacker has, where the instruction stands."""
    late: bool = False


def _spellings(words: str) -> Mapping[str, str]:
    half = words.find(" ", len(words) // 2)
    return {
        "words": words,
        "base64": base64.b64encode(words.encode()).decode(),
        "rot13": codecs.encode(words, "rot13"),
        "hex": words.encode().hex(),
        "percent": quote(words, safe=""),
        "spaced": " ".join(words),
        "tags": "".join(chr(0xE0000 + ord(each)) for each in words if ord(each) < 128),
        "name": words.replace(" ", "_").replace("/", "-") + ".txt",
        "first": words[:half],
        "second": words[half + 1 :],
    }


class Seen(Struct, frozen=True):
    """What a task shows of the fields that strangers write, and what it changes."""

    task: Task
    fields: tuple[tuple[str, str, str], ...]
    changes: tuple[Change, ...]


async def seen_by_tasks() -> dict[str, list[Seen]]:
    """By domain: which fields each task shows. A mark is put into all of them, and the task is done."""
    from bench.injection.trial import reference

    found: dict[str, list[Seen]] = {}
    for name in DOMAINS:
        this = domain(name)
        places = [(table, id, key) for table, keys in this.outside.items() for id in this.state[table] for key in keys]
        marked = tuple(Placed(*place, MARK.format(at)) for at, place in enumerate(places))
        for task in this.tasks:
            plain, shown = await reference(task), await reference(task, marked)
            fields = [place for at, place in enumerate(places) if any(MARK.format(at) in text for text in shown.read)]
            found.setdefault(name, []).append(Seen(task, tuple(fields), plain.changes))
    return found


def drawn_attacks(seen: Mapping[str, Sequence[Seen]]) -> list[Attack]:
    """Every goal in several techniques."""
    techniques = [convert(each, Technique) for each in _read("techniques")["technique"]]
    found = []
    for name in DOMAINS:
        goals = [convert(each, Goal) for each in _read(f"goals_{name}")["goal"]]
        for number, goal in enumerate(goals):
            for step in range(OF_A_GOAL):
                technique = techniques[(number * 5 + step * 3) % len(techniques)]
                attack = _drawn(name, goal, technique, seen[name])
                if attack is not None:
                    found.append(attack)
    return found


def special_attacks() -> list[Attack]:
    """Those that are written out."""
    tasks = {task.id: task for name in DOMAINS for task in domain(name).tasks}
    found = []
    for each in _read("special")["attack"]:
        placed = tuple(Placed(*place) for place in each["placed"])
        order = Order(
            pieces=tuple(each.get("pieces", [place.text for place in placed])),
            ways=convert(each.get("ways", ()), tuple[tuple[Step, ...], ...]),
            change=each.get("change", {}),
            late=each.get("late", False),
        )
        found.append(
            Attack(
                id=f"special/{each['id']}",
                goal=each["id"],
                technique="special",
                task=tasks[each["task"]],
                placed=placed,
                order=order,
                success=several(each["success"]),
            )
        )
    return found


async def all_attacks() -> list[Attack]:
    """Every attack, and those whose task is told in other words too on that task besides."""
    attacks = [*drawn_attacks(await seen_by_tasks()), *special_attacks()]
    return [*attacks, *in_other_words(attacks)]


def in_other_words(attacks: Sequence[Attack]) -> list[Attack]:
    """The same attacks where the person has asked for the same in words that the engine was not made with."""
    told: dict[str, list[Task]] = {}
    for task in paraphrased([task for name in DOMAINS for task in domain(name).tasks]):
        told.setdefault(task.id.rpartition("/")[0], []).append(task)
    return [
        replace(attack, id=f"{attack.id}@{task.id}", task=task)
        for attack in attacks
        for task in told.get(attack.task.id, ())
    ]


def _drawn(name: str, goal: Goal, technique: Technique, seen: Sequence[Seen]) -> Attack | None:
    """One attack, in a task that shows enough fields and does not do by itself what the attacker wants."""
    needed = 2 if technique.second else 1
    hosts = [
        each
        for each in seen
        if len(each.fields) >= needed
        and goal.hosts in each.task.id
        and not is_any(each.changes, several(goal.success))
        and (not goal.change or any(step.do in goal.change for step in each.task.steps))
    ]
    if goal.change:  # it must be read before the call that it changes
        hosts = [each for each in hosts if each.task.steps[0].do not in goal.change]
    if not hosts:
        return None
    draw = random.Random(f"{name} {goal.id} {technique.id}")
    host = draw.choice(hosts)
    fields = draw.sample(host.fields, needed)
    spelt = _spellings(goal.words)
    first, second = technique.text.format_map(spelt), technique.second.format_map(spelt)
    placed = [Placed(*fields[0], first)]
    pieces, ways = [first], goal.ways
    if second:
        placed.append(Placed(*fields[1], second))
        pieces.append(second)
    if technique.page:
        placed.append(Placed("pages", technique.page, "text", goal.words))
        fetch = Step("fetch_page", {"url": technique.page})
        ways = tuple((fetch, *_after(way)) for way in goal.ways) or ((fetch,),)
    return Attack(
        id=f"{name}/{goal.id}/{technique.id}",
        goal=goal.id,
        technique=technique.id,
        task=host.task,
        placed=tuple(placed),
        order=Order(pieces=tuple(pieces), ways=ways, change=goal.change, late=goal.late or technique.late),
        success=several(goal.success),
    )


def is_any(changes: Sequence[Change], patterns: Sequence[Pattern]) -> bool:
    return any(fits(change, pattern) for change in changes for pattern in patterns)


def several(patterns: Pattern | Sequence[Pattern]) -> tuple[Pattern, ...]:
    return (patterns,) if isinstance(patterns, Mapping) else tuple(patterns)


def _after(way: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same calls with one more before them."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            for number in range(len(way), 0, -1):
                value = value.replace(f"$a{number}", f"$a{number + 1}")
                value = value.replace(f"${{a{number}", f"${{a{number + 1}")
            return value
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items()}
        return [moved(each) for each in value] if isinstance(value, list) else value

    return tuple(Step(step.do, moved(step.arguments), moved(step.each)) for step in way)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
