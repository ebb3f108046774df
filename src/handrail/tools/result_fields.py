"""The fields of a result, and what is declared about each: who writes it, and whether it may leave.

A label is a path, as `comments[].text`. That a field is untrusted or private holds wherever its path ends so, and for
everything below it: to say it once too often is safe. That a field is the application's own holds at the top of a
result and of the items of its lists only: what an outsider wrote may be nested and have fields of any name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from handrail.core.calls import ResultLabels
from handrail.core.errors import InvalidDefinition

ITEM = "[]"
_LABEL = re.compile(r"(?:(?:\[\])+\.)?(?:\[\])*[^.\[\]]+(?:\[\])*(?:\.[^.\[\]]+(?:\[\])*)*|(?:\[\])+")
_NAME = re.compile(r"[\w-]{1,64}")
_WHOLE = ResultLabels(untrusted=True)
_LONGEST_NAME = 64
_WRITTEN = frozenset(
    {"from", "sender", "author", "by", "organizer", "organiser", "subject", "body", "text", "comment", "comments"}
    | {"preview", "snippet", "excerpt", "note", "notes", "description", "message", "html", "markdown", "remark"}
)
_MOST_DIGITS = 4_000_000
"""Characters of a text that is looked at as JSON."""


class Field(msgspec.Struct, frozen=True):
    """One value of a result that is no object and no list."""

    path: tuple[str | int, ...]
    value: Any
    outside: bool
    private: bool

    @property
    def words(self) -> str:
        """The path as people write it."""
        return path_words(self.path)


def path_words(path: tuple[str | int, ...]) -> str:
    """A path as people write it, as `comments[2].text`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_step(step)}" for step in path).lstrip(".")


def _step(name: str) -> str:
    """The name of a field. What is no name is not told: it may be what somebody wrote, and the record keeps places."""
    return name if _NAME.fullmatch(name) else "…"


@lru_cache(4096)
def field_steps(label: str) -> tuple[str, ...]:
    """The steps of a label: the names of fields, and `[]` for the items of a list.

    Raises:
        InvalidDefinition: It is no path.
    """
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise InvalidDefinition(f"{label!r} names no field of a result; write it as 'body' or 'comments[].text'")
    return tuple(step for part in label.split(".") for step in re.findall(r"\[\]|[^\[\]]+", part))


def json_of_text(content: Any) -> Any:
    """The value that a result holds, where it is JSON in a text, as those of many servers are."""
    if isinstance(content, str) and content[:1] in "{[" and content and len(content) <= _MOST_DIGITS:
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return content
    return content


def fields_of(content: Any, labels: ResultLabels | None, *, untrusted: bool) -> Iterator[Field]:
    """Every value in a result. `untrusted` is what the result itself says, where its tool declares nothing."""
    declared = labels or (_WHOLE if untrusted else ResultLabels())
    content = json_of_text(content)
    whole = declared.untrusted is True or (untrusted and not declared.untrusted)
    private = False
    if not isinstance(content, dict | list):  # of a text that was cut, nobody can tell the fields
        whole = whole or bool(declared.untrusted)
        private = bool(declared.private)
    known = FieldLabels.of(declared, whole=whole)
    yield from _fields(content, (), (), known, known.whole, private, False)


def private_parts(content: Any, labels: ResultLabels | None) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The path and the value of every private field, found without looking at what else is declared."""
    if labels is None or not labels.private:
        return
    content = json_of_text(content)
    if isinstance(content, dict | list):
        yield from _private_parts(content, (), (), tuple(map(field_steps, labels.private)), False)
    else:
        yield (), content  # of a text that was cut, nobody can tell the fields


def _private_parts(
    value: Any, path: tuple[str | int, ...], steps: tuple[str, ...], labels: tuple[tuple[str, ...], ...], inside: bool
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        step: str = key if isinstance(value, dict) else ITEM
        below = inside
        for label in labels:
            if step == label[-1] and (len(label) == 1 or (*steps, step)[-len(label) :] == label):
                below = True
        if isinstance(item, dict | list | tuple):
            yield from _private_parts(item, (*path, key), (*steps, step), labels, below)
        elif below:
            yield (*path, key), item


def scalars_of(content: Any) -> list[Any]:
    """The values in a result that are no objects and no lists."""
    found: list[Any] = []
    left = [json_of_text(content)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        else:
            found.append(value)
    return found


class FieldLabels(msgspec.Struct, frozen=True):
    """What is declared about the fields of a result, by the steps of their paths."""

    whole: bool
    """Whether outsiders write what nothing else is said of."""
    untrusted: tuple[tuple[str, ...], ...]
    private: tuple[tuple[str, ...], ...]
    own: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, declared: ResultLabels, *, whole: bool) -> FieldLabels:
        return cls(
            whole,
            tuple(map(field_steps, declared.untrusted)) if isinstance(declared.untrusted, tuple) else (),
            tuple(map(field_steps, declared.private)),
            tuple(map(field_steps, declared.own)),
        )

    def is_untrusted(self, steps: tuple[str, ...]) -> bool:
        """Whether a label says that outsiders write what is at this path."""
        return any(steps[-len(label) :] == label for label in self.untrusted)

    def is_own(self, steps: tuple[str, ...]) -> bool:
        """Whether a label says that the application itself writes what is at this path."""
        return any(is_at_top(steps, label) for label in self.own)


def _fields(
    value: Any,
    path: tuple[str | int, ...],
    steps: tuple[str, ...],
    labels: FieldLabels,
    outside: bool,
    private: bool,
    own: bool,
) -> Iterator[Field]:
    if steps:
        outside = outside or labels.is_untrusted(steps)
        private = private or any(steps[-len(label) :] == label for label in labels.private)
        own = own or labels.is_own(steps)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, (*path, key), (*steps, key), labels, outside, private, own)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _fields(item, (*path, index), (*steps, ITEM), labels, outside, private, own)
    else:
        yield Field(path, value, outside and not own, private)


def is_likely_outside(path: tuple[str | int, ...], labels: ResultLabels) -> bool:
    """Whether a field of which nothing is said, in a result of which some is untrusted, has a name of what somebody
    wrote, or of who it was."""
    names = [step for step in path if isinstance(step, str) and len(step) <= _LONGEST_NAME]
    if not isinstance(labels.untrusted, tuple) or not any(
        name.lower().rpartition("_")[2] in _WRITTEN for name in names
    ):
        return False
    known = FieldLabels.of(labels, whole=False)
    steps = tuple(step if isinstance(step, str) else ITEM for step in path)
    return not any(known.is_own(steps[:end]) for end in range(1, len(steps) + 1))


def is_at_top(steps: tuple[str, ...], label: tuple[str, ...]) -> bool:
    """Whether a label names a place at the top of a result, or of the items of a list there."""
    here = steps[1:] if steps[0] == ITEM else steps
    if here == label:
        return True
    return len(label) == 1 and len(here) == 3 and here[1] == ITEM and here[2] == label[0]
