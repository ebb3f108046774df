"""An edit of masked arguments keeps each secret where it was, and never moves one to another place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import UsageError
from handrail.core.redact import MASK, mask_fields
from handrail.core.secret_pointers import restore_masked

SECRETS = frozenset({"password", "key"})
names = st.sampled_from(["user", "password", "key", "items"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=4)


@given(objects)
def test_what_nobody_changed_is_what_it_was_with_every_secret(before: dict[str, Any]) -> None:
    shown = mask_fields(before, SECRETS)

    assert repr(restore_masked(shown, shown, before)) == repr(before)


@given(objects, objects)
def test_whatever_a_person_writes_no_mask_and_no_secret_from_another_place_gets_through(
    before: dict[str, Any], written: dict[str, Any]
) -> None:
    shown = mask_fields(before, SECRETS)
    try:
        found = restore_masked(mask_fields(written, SECRETS), shown, before)
    except UsageError:
        return
    for key, value in found.items():
        assert value != MASK
        if key in SECRETS:
            assert value == before[key]


def test_a_value_beside_a_nested_secret_can_be_changed() -> None:
    before = {"login": {"user": "ada", "password": "s3cret"}, "logins": [{"user": "ada", "password": "s3cret"}]}
    shown = mask_fields(before, SECRETS)

    edited = {**shown, "login": {"user": "bob", "password": MASK}, "logins": [{"user": "bob", "password": MASK}]}

    assert restore_masked(edited, shown, before) == {
        "login": {"user": "bob", "password": "s3cret"},
        "logins": [{"user": "bob", "password": "s3cret"}],
    }


def test_two_items_that_were_swapped_do_not_swap_their_users_under_the_secrets() -> None:
    before = [{"user": "ada", "password": "of ada"}, {"user": "bob", "password": "of bob"}]
    shown = mask_fields(before, SECRETS)

    with pytest.raises(UsageError, match="stands for what is hidden"):
        restore_masked([shown[1], shown[0]], shown, before)


@pytest.mark.parametrize("edited", [{"note": MASK}, {"note": f"a {MASK}"}, {MASK: 1}, {"password": [MASK]}], ids=repr)
def test_a_mask_in_another_place_than_where_it_was_shown_is_refused(edited: dict[str, Any]) -> None:
    before = {"password": "s3cret", "note": ""}

    with pytest.raises(UsageError, match="stands for what is hidden"):
        restore_masked(edited, mask_fields(before, SECRETS), before)
