"""JSON with places for arguments in its texts.

A text that is one place becomes the argument itself, number, list or object; in a
longer text it is put in as text. Keys are never templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handrail.core.errors import InvalidArguments
from handrail.core.jsontext import why_not_json
from handrail.tools.files.template import ALL_MODES, ArgumentTemplate, Mode, TemplateReader, argument_items
from handrail.tools.files.toml_table import TomlKeyPath

Tree = Any
"""JSON in which every text is a `ArgumentTemplate`."""

_DROPPED = object()


@dataclass(frozen=True, slots=True)
class JsonTemplate:
    tree: Tree

    def fill(self, arguments: Mapping[str, Any]) -> Any:
        """The JSON value for one call; what is dropped at the very top is null."""
        value = _filled(self.tree, arguments)
        return None if value is _DROPPED else value


def read_json_template(value: Any, reader: TemplateReader, place: TomlKeyPath) -> JsonTemplate:
    """Compile the texts of a JSON value.

    Raises:
        ConfigError: A template is wrong, or a value has no JSON form.
    """
    return JsonTemplate(_read(value, reader, place, ("one", "maybe")))


def _read(value: Any, reader: TemplateReader, place: TomlKeyPath, modes: tuple[Mode, ...]) -> Tree:
    match value:
        case str():
            return reader.read(value, place, modes)
        case dict():
            return {key: _read(item, reader, place.at(key), ("one", "maybe")) for key, item in value.items()}
        case list():
            return [_read(item, reader, place.at(index), ALL_MODES) for index, item in enumerate(value)]
    if (why := why_not_json(value)) is not None:
        raise place.error(f"it cannot be written as JSON: {why}")
    return value


def _filled(tree: Tree, arguments: Mapping[str, Any]) -> Any:
    match tree:
        case ArgumentTemplate():
            return _value(tree, arguments)
        case dict():
            filled = {key: _filled(item, arguments) for key, item in tree.items()}
            return {key: value for key, value in filled.items() if value is not _DROPPED}
        case list():
            return [value for item in tree for value in _items(item, arguments) if value is not _DROPPED]
    return tree


def _value(template: ArgumentTemplate, arguments: Mapping[str, Any]) -> Any:
    slot = template.whole
    if slot is None:
        text = template.render(arguments)
        return _DROPPED if text is None else text
    value = arguments.get(slot.name, _DROPPED)
    if slot.mode == "maybe":
        return _DROPPED if value is None else value
    if value is _DROPPED:
        raise InvalidArguments(f"{slot.name}: expected a value, got none")
    return value


def _items(item: Tree, arguments: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(item, ArgumentTemplate) and (slot := item.whole) is not None and slot.mode == "each":
        yield from argument_items(slot, arguments)
    else:
        yield _filled(item, arguments)
