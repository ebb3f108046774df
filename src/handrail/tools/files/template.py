"""Texts with places for arguments: `{name}`, `{name?}`, `{name...}`, and `{{` `}}` for braces themselves.

`{name}` must have a value. `{name?}` drops whatever it stands in when there is
none. `{name...}` stands alone and gives one element for each of a list. Nothing is
evaluated: a value is put in as text, never read for further places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from handrail.core.errors import InvalidArguments
from handrail.tools.files.toml_table import TomlKeyPath

Mode = Literal["one", "maybe", "each"]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]+?)(\?|\.\.\.)?\}|[{}]")
_MODES: dict[str | None, Mode] = {None: "one", "?": "maybe", "...": "each"}
ALL_MODES: tuple[Mode, ...] = ("one", "maybe", "each")


@dataclass(frozen=True, slots=True)
class ArgumentSlot:
    """A place for one argument."""

    name: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class ArgumentTemplate:
    parts: tuple[str | ArgumentSlot, ...]

    @property
    def slots(self) -> tuple[ArgumentSlot, ...]:
        return tuple(part for part in self.parts if isinstance(part, ArgumentSlot))

    @property
    def whole(self) -> ArgumentSlot | None:
        """The place that is the entire text, if it is one."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], ArgumentSlot) else None

    def render(self, arguments: Mapping[str, Any], encode: Callable[[str], str] = str) -> str | None:
        """The text with its arguments, each passed through `encode`; None if it drops out."""
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
            elif (value := arguments.get(part.name)) is not None:
                texts.append(encode(argument_text(value, part.name)))
            elif part.mode == "maybe":
                return None
            else:
                raise InvalidArguments(f"{part.name}: expected a value, got none")
        return "".join(texts)

    def elements(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """None, one or several texts."""
        if (slot := self.whole) is not None and slot.mode == "each":
            yield from (argument_text(item, slot.name) for item in argument_items(slot, arguments))
        elif (text := self.render(arguments)) is not None:
            yield text


@dataclass(frozen=True, slots=True)
class TemplateReader:
    """Reads templates whose places must be arguments of one schema."""

    schema: Mapping[str, Any]

    def read(self, text: str, place: TomlKeyPath, modes: tuple[Mode, ...] = ALL_MODES) -> ArgumentTemplate:
        """Parse and check a template.

        Raises:
            ConfigError: A brace is alone, or a place names no argument, may lack a value, or may not be here.
        """
        template = ArgumentTemplate(tuple(_parts(text, place)))
        for slot in template.slots:
            self._check(slot, place)
            if slot.mode not in modes:
                raise place.error(f"only {{{slot.name}}} can stand here, without '?' or '...'")
            if slot.mode == "each" and template.whole is None:
                raise place.error(f"{{{slot.name}...}} must be the whole element")
        return template

    def _check(self, slot: ArgumentSlot, place: TomlKeyPath) -> None:
        known = self.schema.get("properties", {})
        if slot.name not in known:
            has = f"the arguments are {', '.join(known)}" if known else "the tool has no arguments"
            raise place.error(f"{{{slot.name}}} is not an argument; {has}")
        kind = known[slot.name].get("type") if isinstance(known[slot.name], Mapping) else None
        if slot.mode == "each" and kind not in ("array", None):
            raise place.error(f"{{{slot.name}...}} needs an argument of type 'array', not {kind!r}")
        if slot.mode == "one" and slot.name not in self.schema.get("required", ()) and not _default(known[slot.name]):
            raise place.error(
                f"{{{slot.name}}} may have no value; make it required, give it a default, or write {{{slot.name}?}}"
            )


def argument_text(value: Any, name: str) -> str:
    """An argument as it goes into a command line or a URL: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if "\0" in text:
        raise InvalidArguments(f"{name}: must not contain a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArguments(f"{name}: its text holds half of a surrogate pair") from None
    return text


def argument_items(slot: ArgumentSlot, arguments: Mapping[str, Any]) -> list[Any]:
    value = arguments.get(slot.name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidArguments(f"{slot.name}: expected a list")
    return value


def _parts(text: str, place: TomlKeyPath) -> Iterator[str | ArgumentSlot]:
    literal, start = "", 0
    for token in _TOKEN.finditer(text):
        literal += text[start : token.start()]
        start = token.end()
        match token.group():
            case "{{" | "}}" as doubled:
                literal += doubled[0]
            case "{" | "}" as alone:
                raise place.error(f"a lone {alone!r}; write {alone * 2!r} for the character itself")
            case _:
                if literal:
                    yield literal
                literal = ""
                yield ArgumentSlot(token[1], _MODES[token[2]])
    if literal + text[start:]:
        yield literal + text[start:]


def _default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("default") is not None
