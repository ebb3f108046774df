"""Put one entry in the place of servers in the text of a client's file, and back; all else stays as it is written.

The text is cut and pasted where the entries stand. What comes out is read again, and taken
only if it says exactly what was wanted: so a form of writing that this does not know is
refused, never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handrail.config.client_files import plain_json
from handrail.config.toml_edit import toml_key, toml_literal
from handrail.core.errors import UsageError
from handrail.tools.files.toml_positions import toml_layout

_SPACE = re.compile(r"\s*")
_COMMA = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*,", re.DOTALL)
_COMMENT_LINES = re.compile(r"(?:[ \t]*#[^\n]*\n)+\Z")
_REFUSED = "it cannot be changed without changing more, because of how it is written; change it by hand"


@dataclass(frozen=True, slots=True)
class ProxyEntry:
    """The entry that takes the place of others."""

    name: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RewrittenText:
    text: str
    removed: Mapping[str, str]
    """The names of the entries that were taken out, each as it was written."""


def replace_entries(
    text: str, keys: Sequence[str], names: Collection[str], entry: ProxyEntry | None, *, toml: bool
) -> RewrittenText:
    """The text without the entries of these names, and with the other entry where the first of them stood.

    Raises:
        UsageError: It cannot be done without changing more.
    """
    mark, body = text[: text.startswith("\ufeff")], text.removeprefix("\ufeff")
    done = (_replace_in_toml if toml else _replace_in_json)(body, keys, names, entry)
    _check(body, done.text, keys, names, entry, toml)
    return RewrittenText(mark + done.text, done.removed)


def restore_entries(
    text: str, keys: Sequence[str], removed: Mapping[str, str], entry: ProxyEntry, *, keep: bool, toml: bool
) -> str:
    """The text with the entries that were taken out in the place of the one that is there for them; with `keep`, beside
    it. What else was changed meanwhile stays; an entry that is there again stays as it is.

    Raises:
        UsageError: The entry is no longer there, or it cannot be done without changing more.
    """
    mark, body = text[: text.startswith("\ufeff")], text.removeprefix("\ufeff")
    try:
        there = _at(_loaded(body, toml), keys)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it can no longer be read: {error}") from error
    if there.get(entry.name) != dict(entry.value):
        raise UsageError(f"its entry {entry.name!r} is no longer what handrail wrote")
    missing = {name: written for name, written in removed.items() if name not in there}
    after = (_restore_in_toml if toml else _restore_in_json)(body, keys, missing, entry.name, keep)
    kept = {name: value for name, value in there.items() if keep or name != entry.name}
    try:
        found = _at(_loaded(after, toml), keys)
    except (ValueError, RecursionError) as error:
        raise UsageError(_REFUSED) from error
    if found.keys() != {*kept, *missing} or any(found[name] != value for name, value in kept.items()):
        raise UsageError(_REFUSED)
    return mark + after


def _loaded(text: str, toml: bool) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(text) if toml else json.loads(plain_json(text))
    return loaded


def _at(data: Any, keys: Sequence[str]) -> dict[str, Any]:
    for key in keys:
        data = data.get(key, {}) if isinstance(data, dict) else None
    return dict(data) if isinstance(data, dict) else {}


def _check(
    before: str, after: str, keys: Sequence[str], names: Collection[str], entry: ProxyEntry | None, toml: bool
) -> None:
    """Checks that the new text says what was wanted, and is still strict JSON if it was before."""
    wanted = _loaded(before, toml)
    table = wanted
    for key in keys:
        table = table[key]
    for name in names:
        del table[name]
    if entry is not None:
        table[entry.name] = dict(entry.value)
    try:
        if _loaded(after, toml) == wanted and (toml or not _is_strict(before) or _is_strict(after)):
            return
    except (ValueError, RecursionError):
        pass
    raise UsageError(_REFUSED)


def _is_strict(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# ── JSON ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _JsonMember:
    """A key and its value, as offsets into the text."""

    begin: int
    value: int
    end: int


def _members(plain: str, at: int) -> dict[str, _JsonMember]:
    """The members of the object that begins at this offset. The text has no comments and has been parsed before."""
    decoder, found = json.JSONDecoder(), dict[str, _JsonMember]()
    at = _skip(plain, at + 1)
    while plain[at] != "}":
        key, end = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, end) + 1)
        _, end = decoder.raw_decode(plain, value)
        if key in found:
            raise UsageError(f"it has {key!r} twice; remove one")
        found[key] = _JsonMember(at, value, end)
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _container(text: str, keys: Sequence[str]) -> dict[str, _JsonMember]:
    plain = plain_json(text)
    at = _skip(plain, 0)
    for key in keys:
        at = _members(plain, at)[key].value
    return _members(plain, at)


def _replace_in_json(text: str, keys: Sequence[str], names: Collection[str], entry: ProxyEntry | None) -> RewrittenText:
    members = _container(text, keys)
    taken = [name for name in members if name in names]
    removed = {name: text[members[name].begin : members[name].end] for name in taken}
    edits: list[tuple[int, int, str]] = []
    if entry is not None:
        first = members[taken.pop(0)]
        edits.append((first.begin, first.end, _json_entry(text, first.begin, entry)))
    edits += (_cut(text, members[name]) for name in taken)
    if taken and taken[-1] == list(members)[-1] and _COMMA.match(text, members[taken[-1]].end) is None:
        left = [name for name in members if name not in taken]
        if left and (comma := _COMMA.match(text, members[left[-1]].end)):  # it would be the last, before nothing
            edits.append((comma.end() - 1, comma.end(), ""))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return RewrittenText(text, removed)


def _cut(text: str, member: _JsonMember) -> tuple[int, int, str]:
    """The text without the member, its comma, and the lines that would be left empty."""
    comma = _COMMA.match(text, member.end)
    begin, end = member.begin, member.end
    if comma is not None and not text[member.end : comma.end() - 1].strip():
        end = comma.end()
    elif comma is not None:  # a comment stands between: it stays
        return begin, comma.end(), text[member.end : comma.end() - 1]
    line = len(text[:begin].rstrip(" \t"))
    rest = re.compile(r"[ \t]*(?=\r?\n)").match(text, end)
    if rest is not None and line > 0 and text[line - 1] == "\n":
        return line - (2 if text[line - 2 : line] == "\r\n" else 1), rest.end(), ""
    return begin, end, ""


def _json_entry(text: str, at: int, entry: ProxyEntry) -> str:
    """The entry in the style of the text around it."""
    line = text.rfind("\n", 0, at) + 1
    indent = text[line:at]
    if indent.strip() or not line:
        return f"{json.dumps(entry.name)}: {json.dumps(entry.value, ensure_ascii=False)}"
    shorter = (each[: len(each) - len(each.lstrip())] for each in reversed(text[:line].splitlines()) if each.strip())
    around = next((each for each in shorter if len(each) < len(indent) and indent.startswith(each)), "")
    unit = indent.removeprefix(around)
    value = json.dumps(entry.value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")
    written = f"{json.dumps(entry.name)}: {value}"
    return written.replace("\n", "\r\n") if "\r\n" in text else written


def _restore_in_json(text: str, keys: Sequence[str], missing: Mapping[str, str], name: str, keep: bool) -> str:
    member = _container(text, keys)[name]
    line = text.rfind("\n", 0, member.begin)
    indent = text[line + 1 : member.begin]
    newline = "\r\n" if "\r\n" in text else "\n"
    between = ", " if indent.strip() or line < 0 else f",{newline}{indent}"
    written = [text[member.begin : member.end]] if keep else []
    if not written and not missing:
        begin, end, new = _cut(text, member)
        return text[:begin] + new + text[end:]
    return text[: member.begin] + between.join([*written, *missing.values()]) + text[member.end :]


# ── TOML ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _TomlSection:
    """A table with its header, as offsets of whole lines."""

    path: tuple[str | int, ...]
    begin: int
    end: int


def _sections(text: str) -> list[_TomlSection]:
    headers = sorted((end, path) for path, end in toml_layout(text).headers.items())
    begins = [text.rfind("\n", 0, end) + 1 for end, _ in headers]
    stops = [*(_above(text, begin) for begin in begins[1:]), len(text)]
    return [_TomlSection(path, begin, stop) for (_, path), begin, stop in zip(headers, begins, stops, strict=False)]


def _above(text: str, header: int) -> int:
    """The offset at which the comment directly above a header begins."""
    found = _COMMENT_LINES.search(text, 0, header)
    return header if found is None else found.start()


def _replace_in_toml(text: str, keys: Sequence[str], names: Collection[str], entry: ProxyEntry | None) -> RewrittenText:
    removed: dict[str, str] = {}
    edits: list[tuple[int, int, str]] = []
    new = "" if entry is None else _toml_entry(keys, entry)
    for section in _sections(text):
        if section.path[: len(keys)] == tuple(keys) and section.path[len(keys) : len(keys) + 1] in _as_paths(names):
            name = str(section.path[len(keys)])
            written = text[section.begin : section.end]
            removed[name] = removed.get(name, "") + written
            gap = written[len(written.rstrip()) :]
            edits.append((section.begin, section.end, (new.rstrip("\n") + (gap or "\n")) if new else ""))
            new = ""
    for path, pair in toml_layout(text).pairs.items():
        its = pair.table is not None and path[: len(keys)] == tuple(keys) and path[len(keys) :][:1] in _as_paths(names)
        if its and pair.table is not None and pair.table[: len(keys) + 1] != path[: len(keys) + 1]:
            raise UsageError(f"{path[len(keys)]!r} is written in one line there; write it as a table of its own")
    if new:
        raise UsageError(_REFUSED)
    for begin, end, written in sorted(edits, reverse=True):
        text = text[:begin] + written + text[end:]
    return RewrittenText(text, removed)


def _as_paths(names: Collection[str]) -> set[tuple[str, ...]]:
    return {(name,) for name in names}


def _toml_entry(keys: Sequence[str], entry: ProxyEntry) -> str:
    header = ".".join(map(toml_key, (*keys, entry.name)))
    lines = [f"{toml_key(key)} = {toml_literal(value)}" for key, value in entry.value.items()]
    return "\n".join([f"[{header}]", *lines]) + "\n"


def _restore_in_toml(text: str, keys: Sequence[str], missing: Mapping[str, str], name: str, keep: bool) -> str:
    section = next((each for each in _sections(text) if each.path == (*keys, name)), None)
    if section is None:
        raise UsageError(_REFUSED)
    written = [text[section.begin : section.end]] if keep else []
    return text[: section.begin] + "".join(map(_ended, [*written, *missing.values()])) + text[section.end :]


def _ended(section: str) -> str:
    return section if section.endswith("\n") else f"{section}\n"
