"""Names that are spelt nearly like another, among many.

To compare a name with each of 10,000 takes a third of a second. So only those are compared that share the rarest
letters in a row with it, which a search of one long text finds.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator

_FEW = 200
"""Names that are all compared."""
_COMPARED = 24
_HITS = 1_000
"""Places of shared letters that are looked at."""
_ROW = 3
_LONGEST = 100


class NearNames:
    """Finds the nearest of many names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._text = "" if len(self._names) <= _FEW else "\n" + "\n".join(self._names) + "\n"

    def find(self, name: str, n: int = 5) -> list[str]:
        """The names that are spelt nearly like this one, the nearest first."""
        if not self._text:
            return difflib.get_close_matches(name, self._names, n=n)
        return difflib.get_close_matches(name[:_LONGEST], self._candidates(name[:_LONGEST]), n=n)

    def _candidates(self, name: str) -> list[str]:
        """The names that share most letters in a row with a name; of these the ones of the nearest length."""
        rows = {name[at : at + _ROW] for at in range(len(name) - _ROW + 1)}
        counts = sorted((count, row) for row in rows if "\n" not in row and (count := self._text.count(row)))
        shared: Counter[str] = Counter()
        left = _HITS
        for count, row in counts:
            for found in self._holding(row, left):
                shared[found] += 1
            left -= count
            if left <= 0:
                break
        return sorted(shared, key=lambda each: (-shared[each], abs(len(each) - len(name)), each))[:_COMPARED]

    def _holding(self, row: str, most: int) -> Iterator[str]:
        """The names that hold some letters in a row, some of them."""
        text, at = self._text, 0
        for _ in range(most):
            at = text.find(row, at)
            if at < 0:
                return
            end = text.index("\n", at)
            yield text[text.rindex("\n", 0, at) + 1 : end]
            at = end
