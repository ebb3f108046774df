"""A result in two parts: what the model is shown, and the words from outside, each with the handle that stands for it.

Numbers, booleans and empty values of outsiders are shown: they hold no words. The names of fields are shown where the
tool itself declares them; an outsider can write names too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from handrail.core.calls import ResultLabels, ToolResult, WithheldWords
from handrail.tools.definition import ToolDefinition
from handrail.tools.result_fields import ITEM, FieldLabels, field_steps, json_of_text, path_words

_EXPLAINED = "characters that you are not shown; the braces stand for them"
HANDLE = re.compile(rf"(\{{\{{words:[0-9a-f]{{12}}\}}\}})(?: \([\d,]+ {_EXPLAINED}\))?")
"""A handle, and what a model is told of it: code passes on both."""
EXTRACTED = "extracted"
WORDS = "words"
ITEMS = "items"
_REST = "…"
"""The key of the fields that the tool does not declare, together."""
_MOST = 500
"""Handles of one result."""
_LONGEST = 1_000_000
"""Characters that are kept of one result."""
_MOST_ITEMS = 200
_LARGEST = 10**15
_CUT = "{{words:none}} (too much to be kept)"


def withhold(
    content: Any, definition: ToolDefinition, place: str, labels: ResultLabels | None = None
) -> tuple[Any, tuple[WithheldWords, ...]]:
    """What the model is shown of a result, and what it is not.

    Args:
        place: Names the result among all others.
        labels: Who wrote its fields, where that is other than what the tool declares.
    """
    content = json_of_text(content)
    stated = _declared(definition) if labels is None else labels
    structured = isinstance(content, dict | list)
    outside = stated.untrusted is True or (bool(stated.untrusted) and not structured)
    splitter = _Splitter(place, FieldLabels.of(stated, whole=outside), _names(definition, stated))
    return splitter.shown(content, (), (), outside, False), tuple(splitter.withheld)


def with_extract(shown: Any, extracted: Mapping[str, Any]) -> dict[str, Any]:
    """What the model is shown, with the extract beside it."""
    if isinstance(shown, dict) and EXTRACTED not in shown:
        return {**shown, EXTRACTED: dict(extracted)}
    return {ITEMS if isinstance(shown, list) else WORDS: shown, EXTRACTED: dict(extracted)}


def labels_with_extract(labels: ResultLabels | None) -> ResultLabels | None:
    """The labels of a result that has an extract: it is what outsiders wrote, and as private as that."""
    if labels is None:
        return None
    beside = (EXTRACTED, WORDS)
    untrusted = (*labels.untrusted, *beside) if isinstance(labels.untrusted, tuple) else labels.untrusted
    private = (*labels.private, *beside) if labels.private else ()
    return replace(labels, untrusted=untrusted, private=private)


def whole_result(result: ToolResult) -> ToolResult:
    """The result as its tool gave it, beside what was extracted: for whoever compares values."""
    if not result.withheld:
        return result
    return replace(result, content=_restored(result.content, {each.handle: each.text for each in result.withheld}))


def words_for_reader(withheld: Iterable[WithheldWords]) -> str:
    """The withheld words as the second model reads them."""
    found = list(withheld)
    if len(found) == 1:
        return found[0].text
    return msgspec.json.encode({each.path: each.text for each in found}).decode()


def _declared(definition: ToolDefinition) -> ResultLabels:
    return definition.labels or ResultLabels(definition.untrusted)


def _names(definition: ToolDefinition, stated: ResultLabels) -> frozenset[str]:
    """The names of fields that are declared."""
    untrusted = stated.untrusted if isinstance(stated.untrusted, tuple) else ()
    labels = (*untrusted, *stated.own, *stated.private)
    found = {step for label in labels for step in field_steps(label) if step != ITEM}
    return frozenset(found | set(_properties(definition.output_schema, 0)))


def _properties(schema: Any, depth: int) -> Iterable[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _properties(each, depth + 1)
    elif isinstance(schema, dict) and depth < 40:
        known = schema.get("properties")
        if isinstance(known, dict):
            yield from known
        for each in schema.values():
            yield from _properties(each, depth + 1)


class _Splitter:
    def __init__(self, place: str, labels: FieldLabels, names: frozenset[str]) -> None:
        self._place = place
        self._labels = labels
        self._names = names
        self._room = _LONGEST
        self.withheld: list[WithheldWords] = []

    def shown(self, value: Any, path: tuple[str | int, ...], steps: tuple[str, ...], outside: bool, own: bool) -> Any:
        if steps:
            outside = outside or self._labels.is_untrusted(steps)
            own = own or self._labels.is_own(steps)
        hidden = outside and not own
        if isinstance(value, dict):
            return self._object(value, path, steps, outside, own) if value else value
        if isinstance(value, list | tuple):
            if hidden and (len(value) > _MOST_ITEMS or not any(map(self._is_record, value))):
                return self._handle(value, path) if value else value
            return [self.shown(each, (*path, at), (*steps, ITEM), outside, own) for at, each in enumerate(value)]
        if not hidden or value is None or isinstance(value, bool) or value == "":
            return value
        if isinstance(value, int | float) and abs(value) < _LARGEST:
            return value
        return self._handle(value, path)

    def _object(
        self, value: dict[str, Any], path: tuple[str | int, ...], steps: tuple[str, ...], outside: bool, own: bool
    ) -> Any:
        known = value.keys() & self._names if outside and not own else value.keys()
        if not known:
            return self._handle(value, path)
        found = {
            name: self.shown(each, (*path, name), (*steps, name), outside, own)
            for name, each in value.items()
            if name in known
        }
        rest = {name: each for name, each in value.items() if name not in known}
        if rest:
            found[_REST] = self._handle(rest, (*path, _REST))
        return found

    def _is_record(self, value: Any) -> bool:
        return isinstance(value, dict) and not self._names.isdisjoint(value)

    def _handle(self, value: Any, path: tuple[str | int, ...]) -> str:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if len(self.withheld) >= _MOST or self._room <= 0:
            return _CUT
        kept = text[: self._room]
        self._room -= len(kept)
        name = hashlib.sha256(f"{self._place}\n{path!r}".encode()).hexdigest()[:12]
        handle = f"{{{{words:{name}}}}}"
        self.withheld.append(WithheldWords(handle, path_words(path), kept))
        return f"{handle} ({len(kept):,} {_EXPLAINED})"


def _restored(content: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(content, dict):
        return {key: _restored(item, texts) for key, item in content.items()}
    if isinstance(content, list):
        return [_restored(item, texts) for item in content]
    if isinstance(content, str) and (found := HANDLE.match(content)) is not None:
        return texts.get(found[1], content)
    return content
