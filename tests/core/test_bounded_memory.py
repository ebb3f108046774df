"""A memory with bounds, held against a plain list of what should be in it."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, strategies as st

from handrail.core.bounded_memory import BoundedMemory

Step = tuple[Literal["put", "default", "get", "pop", "amend", "wait"], int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "default", "get", "pop", "amend", "wait"]), st.integers(0, 4), st.integers(0, 6)),
    max_size=40,
)


class PlainMemory:
    """The same by the slowest way: a list of (key, value, since), the oldest first. A value is its own weight."""

    def __init__(self, most: int, heaviest: int, seconds: float, lru: bool, keep_newest: bool) -> None:
        self.entries: list[tuple[int, int, int]] = []
        self.now = 0
        self.most, self.heaviest, self.seconds, self.lru, self.keep_newest = most, heaviest, seconds, lru, keep_newest

    def fresh(self) -> list[tuple[int, int]]:
        return [(key, value) for key, value, since in self.entries if self.now - since < self.seconds]

    def take(self, key: int) -> int | None:
        found = [value for each, value, _ in self.entries if each == key]
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return found[0] if found else None

    def put(self, key: int, value: int) -> None:
        self.take(key)
        if value > self.heaviest and not self.keep_newest:
            return
        self.entries.append((key, value, self.now))
        while self.entries and self.is_too_much():
            self.entries.pop(0)

    def is_too_much(self) -> bool:
        weight = sum(value for _, value, _ in self.entries)
        heavy = weight > self.heaviest and (len(self.entries) > 1 or not self.keep_newest)
        return len(self.entries) > self.most or heavy or self.now - self.entries[0][2] >= self.seconds

    def get(self, key: int) -> int | None:
        for entry in self.entries:
            if entry[0] == key:
                if self.now - entry[2] >= self.seconds:
                    self.entries.remove(entry)
                    return None
                if self.lru:
                    self.entries.remove(entry)
                    self.entries.append(entry)
                return entry[1]
        return None

    def amend(self, key: int, value: int) -> None:
        self.entries = [(each, value if each == key else old, since) for each, old, since in self.entries]


@given(STEPS, st.integers(1, 4), st.integers(1, 12), st.integers(1, 6), st.booleans(), st.booleans())
def test_it_holds_what_its_bounds_allow(
    steps: list[Step], most: int, heaviest: int, seconds: int, lru: bool, keep_newest: bool
) -> None:
    plain = PlainMemory(most, heaviest, seconds, lru, keep_newest)
    memory = BoundedMemory[int, int](
        most,
        weight=int,
        most_weight=heaviest,
        seconds=seconds,
        now=lambda: plain.now,
        lru=lru,
        keep_newest=keep_newest,
    )
    for what, key, value in steps:
        match what:
            case "put":
                memory[key] = value
                plain.put(key, value)
            case "default":
                known = dict(plain.fresh()).get(key)
                assert memory.setdefault(key, value) == (value if known is None else known)
                plain.get(key) if known is not None else plain.put(key, value)
            case "get":
                assert memory.get(key) == plain.get(key)
            case "pop":
                assert memory.pop(key, None) == plain.take(key)
            case "amend" if key in memory and value <= dict(plain.fresh())[key]:
                memory.amend(key, value)
                plain.amend(key, value)
            case _:
                plain.now += value
        assert memory.items() == plain.fresh()
        assert list(memory) == [key for key, _ in plain.fresh()]
        assert len(memory) == len(plain.entries)
        assert memory.weight == sum(value for _, value, _ in plain.entries)


def test_whoever_asked_is_told_what_was_forgotten_and_not_what_was_taken_out() -> None:
    told: list[tuple[str, int]] = []
    memory = BoundedMemory[str, int](2, on_forget=lambda key, value: told.append((key, value)))
    for at, key in enumerate("abcad"):
        memory[key] = at
    memory.pop("d", None)
    memory.clear()

    assert told == [("a", 0), ("b", 1), ("c", 2)]


def test_a_key_that_is_not_there_is_an_error_or_a_default() -> None:
    memory = BoundedMemory[str, int](2)

    assert (memory.get("a"), memory.get("a", 7), memory.pop("a", 8)) == (None, 7, 8)
    with pytest.raises(KeyError):
        memory["a"]


def test_what_could_not_be_put_away_is_kept_and_goes_the_next_time() -> None:
    gone: list[str] = []
    fails = [True]

    def put_away(key: str, value: str) -> None:
        if fails:
            fails.pop()
            raise PermissionError("in use")
        gone.append(key)

    memory = BoundedMemory[str, str](weight=len, most_weight=10, keep_newest=True, on_forget=put_away)
    memory["a"] = "x" * 8
    with pytest.raises(PermissionError):
        memory["b"] = "x" * 8
    assert (list(memory), memory.weight) == (["a", "b"], 16)

    memory["c"] = "x" * 8

    assert (gone, list(memory), memory.weight) == (["a", "b"], ["c"], 8)
