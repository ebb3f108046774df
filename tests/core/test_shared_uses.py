"""Things that users share, also when the garbage collector lets a user go in the middle of a call."""

from __future__ import annotations

import pytest

from handrail.core.shared_uses import SharedUses


class User:
    pass


def test_a_second_user_joins_and_the_last_one_closes() -> None:
    uses, one, other = SharedUses[str](), User(), User()
    first = uses.join("key", one, "made", bool)
    second = uses.join("key", other, "not needed", bool)

    assert second is first
    assert (uses.leave(first, one), uses.leave(first, other)) == (False, True)


@pytest.mark.timeout(30)
def test_a_user_that_leaves_while_another_joins_takes_what_was_shared_along() -> None:
    """As a guard does that is collected as garbage while another one opens the same journal."""
    uses, old, new = SharedUses[str](), User(), User()
    first = uses.join("key", old, "old", bool)
    closes: list[bool] = []

    def fits(value: str) -> bool:
        if not closes:
            closes.append(uses.leave(first, old))
        return True

    joined = uses.join("key", new, "new", fits)

    assert closes == [True]
    assert joined.value == "new"
    assert uses.leave(joined, new)
