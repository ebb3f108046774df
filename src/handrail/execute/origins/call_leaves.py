"""One value among the arguments of a call, and what its name tells: where something goes, how much, when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from handrail.core.secret_pointers import child_pointer
from handrail.execute.origins.word_sets import word_set
from handrail.tools.argument_roles import ArgumentRole
from handrail.tools.effect_kinds import name_words

PLACES = word_set(
    """to cc bcc recipient recipients email emails address addresses url uri link webhook iban account payee phone
    number channel attendees participants invitees guests user users username host domain endpoint destination
    target receiver beneficiary path file filename filepath folder directory dest source src command cmd query
    sql"""
)
OUTWARD = re.compile(r"@|://|^\+?[\d\s().-]{7,}$|^[A-Z]{2}\d{2}[A-Z0-9 ]{10,}$|^(?:[\w-]+\.)+[a-z]{2,}$", re.IGNORECASE)
AMOUNTS = word_set("amount price total sum value cost fee budget limit")
COUNTS = word_set("quantity qty count copies pieces units number_of")
LENGTHS = word_set("duration minutes length")
CENTS = word_set("cents cent minor pence rappen")
ENDS = word_set("end ends until till to finish")
STARTS = word_set("start starts begin begins from at when date time")
SHARES = word_set("percent percentage pct discount rate")
SIZES = word_set("size max min most least guests seats persons people adults nights level score rating points")
COUNTING = AMOUNTS | COUNTS | LENGTHS | CENTS | SHARES | SIZES
HOW_MUCH = AMOUNTS | COUNTS | CENTS
SECRETS = word_set("password passwords passphrase passcode pin secret")
RELATED = word_set("duplicate of original parent related reference instead target body text content comment")


@dataclass(frozen=True, slots=True)
class CallLeaf:
    """One value among the arguments."""

    pointer: str
    name: str
    """The name of the argument that the value is in."""
    value: Any
    role: ArgumentRole
    schema: Mapping[str, Any]
    required: bool

    @property
    def names(self) -> frozenset[str]:
        return _words_of_names(self.name, self.pointer.rpartition("/")[2])

    @property
    def is_place(self) -> bool:
        """Whether it names where something goes, so that a part of it leads somewhere else."""
        return not self.names.isdisjoint(PLACES) or "format" in self.schema

    @property
    def is_outward(self) -> bool:
        """Whether it leads out of the application, as an address does."""
        return isinstance(self.value, str) and OUTWARD.search(self.value) is not None


@lru_cache(4096)
def _words_of_names(name: str, last: str) -> frozenset[str]:
    return frozenset((*name_words(name), *name_words(last)))


def scalars(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a JSON value that are neither objects nor lists, and empty objects and lists."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from scalars(child_pointer(pointer, key), item)
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from scalars(child_pointer(pointer, index), item)
    else:
        yield pointer, value
