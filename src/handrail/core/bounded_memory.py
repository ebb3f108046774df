"""A dictionary that forgets: by count, by weight and by age, the oldest entry first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class _Entry(NamedTuple, Generic[V]):
    value: V
    weight: int
    since: float


class BoundedMemory(Generic[K, V]):
    """Keeps the newest entries within its bounds.

    An entry's age and weight are those of the moment when it was put in; putting it in again renews both, and makes it
    the newest. There are no timers: what is too old is dropped when it is met, or when something else is put in.
    It is not safe for threads.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        weight: Callable[[V], int] | None = None,
        most_weight: int = 0,
        seconds: float | None = None,
        now: Callable[[], float] = lambda: 0.0,
        lru: bool = False,
        keep_newest: bool = False,
        on_forget: Callable[[K, V], None] | None = None,
    ) -> None:
        """`weight` measures a value, all of which weigh `most_weight` at most; one that is heavier alone is not kept,
        unless `keep_newest`. `seconds` are counted by `now`. With `lru` an entry that is read becomes the newest, and
        keeps its age. `on_forget` is told of what had to go, not of what was popped, replaced or never kept.
        """
        self._most = most
        self._weigh = weight
        self._most_weight = most_weight
        self._seconds = seconds
        self._now = now
        self._lru = lru
        self._keep_newest = keep_newest
        self._on_forget = on_forget
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self.weight: int = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        entry = self._entries.get(key)
        return entry is not None and not self._is_old(entry)

    def __iter__(self) -> Iterator[K]:
        return iter([key for key, _ in self.items()])

    def items(self) -> list[tuple[K, V]]:
        """What is there now, the oldest first; none of it counts as read."""
        return [(key, entry.value) for key, entry in self._entries.items() if not self._is_old(entry)]

    def values(self) -> Iterator[V]:
        """The same, one after the other: nothing may be put in meanwhile."""
        return (entry.value for entry in self._entries.values() if not self._is_old(entry))

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        entry = self._entries.get(key)
        if entry is None:
            return default
        if self._is_old(entry):
            self._drop(key)
            return default
        if self._lru:
            self._entries.move_to_end(key)
        return entry.value

    def __getitem__(self, key: K) -> V:
        if key not in self:
            raise KeyError(key)
        return self.get(key)  # type: ignore[return-value]  # None only if V has it

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        weight = 0 if self._weigh is None else self._weigh(value)
        if weight > self._most_weight and not self._keep_newest:
            return
        self._entries[key] = _Entry(value, weight, self._now())
        self.weight += weight
        self.forget_old()

    def setdefault(self, key: K, value: V) -> V:
        """The value that is there, which keeps its age, or else this one."""
        if key not in self:
            self[key] = value
            return value
        return self[key]

    def amend(self, key: K, value: V) -> None:
        """Change the value of an entry that is there, and with it the weight; its age and its place stay."""
        old = self._entries[key]
        entry = self._entries[key] = _Entry(value, 0 if self._weigh is None else self._weigh(value), old.since)
        self.weight += entry.weight - old.weight

    def pop(self, key: K, default: D) -> V | D:
        """Take an entry out, however old it is."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return default
        self.weight -= entry.weight
        return entry.value

    def clear(self) -> None:
        self._entries.clear()
        self.weight = 0

    def forget_old(self) -> None:
        """Drop the oldest entries until the rest is within the bounds."""
        entries = self._entries
        while entries:
            key = next(iter(entries))
            too_many = self._most is not None and len(entries) > self._most
            too_heavy = self.weight > self._most_weight and (len(entries) > 1 or not self._keep_newest)
            if not too_many and not too_heavy and not self._is_old(entries[key]):
                return
            self._drop(key)

    def _drop(self, key: K) -> None:
        if self._on_forget is not None:
            self._on_forget(key, self._entries[key].value)  # if that fails the entry stays, and goes the next time
        self.pop(key, None)

    def _is_old(self, entry: _Entry[V]) -> bool:
        return self._seconds is not None and self._now() - entry.since >= self._seconds
