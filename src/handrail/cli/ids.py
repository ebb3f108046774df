"""Ids cut short: finding the one that is meant, and cutting them for a table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from handrail.core.errors import UsageError

_SHORTEST = 12
_SHOWN = 8


def resolve_id(given: str, known: Iterable[str], what: str) -> str:
    """The id that is meant: this one, or the only one that begins so.

    Raises:
        UsageError: None does, or several do.
    """
    ids = list(dict.fromkeys(known))
    found = [given] if given in ids else above([each for each in ids if given and each.startswith(given)])
    match found:
        case [one]:
            return one
        case []:
            there = f"the latest are: {_listed(above(ids)[::-1])}" if ids else "there are none"
            raise UsageError(f"there is no {what} {given!r}; {there}")
    raise UsageError(f"{given!r} is the beginning of several ids of a {what}; give more characters: {_listed(found)}")


def above(ids: Iterable[str]) -> list[str]:
    """The ids without those of nested runs, which are named after the run that began them: `run_1.call_2.1` after
    `run_1`."""
    known = list(ids)
    there = set(known)
    return [each for each in known if not any(each[:at] in there for at, letter in enumerate(each) if letter == ".")]


def shorten_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id with its shortest beginning that no other of them shares, but some letters at least."""
    ordered = sorted(set(ids))
    cut: dict[str, str] = {}
    for at, each in enumerate(ordered):
        beside = ordered[max(0, at - 1) : at] + ordered[at + 1 : at + 2]
        needed = max((_shared(each, other) + 1 for other in beside), default=0)
        cut[each] = each[: max(needed, _SHORTEST)]
    return cut


def _shared(one: str, other: str) -> int:
    """How many letters two ids begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(map(repr, ids[:_SHOWN])) + more
