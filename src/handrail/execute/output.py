"""What a handler returned, as JSON that everybody can read."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import math
import unicodedata
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from handrail.core.calls import Attachment, Output, SpilledOutput, ToolResult, encode_data
from handrail.core.errors import InvalidOutput, ToolError, describe_exception
from handrail.core.jsontext import without_surrogates
from handrail.core.ports import Spill
from handrail.core.redact import MASK, Secret
from handrail.tools.handlers import Style
from handrail.tools.tool import Tool

_NRV_KEYS = frozenset({"output", "warnings", "attachments"})
_FLAT = frozenset({str, int, float, bool, type(None)})
_DEEPEST = 100
_ESCAPED = "characters that are not valid Unicode are sent as \\u escapes, and each backslash as two"


def normalise_output(value: Any, style: Style) -> Output:
    """Read any return value: a plain one, an `Output`, a `ToolResult`, nrv's result object, a `ToolError`.

    Raises:
        ToolError: The handler returned one, or the failed result of another call.
        InvalidOutput: The value has no JSON form.
    """
    if type(value) is str and value.isascii():
        return Output(value)
    match value:
        case ToolError():
            raise value
        case Output():
            return _output(value.output, value.warnings, value.attachments)
        case ToolResult():
            if value.error is not None:
                raise ToolError(value.error.code, value.error.message)
            if value.is_error:
                raise ToolError(value.outcome, value.text)
            return _output(value.content, value.warnings, value.attachments)
        case dict() if style == "invocation" and "output" in value and value.keys() <= _NRV_KEYS:
            return _output(value["output"], value.get("warnings") or (), value.get("attachments") or ())
    return _output(value, (), ())


def read_worker_output(output: Output) -> Output:
    """What a worker has sent: JSON by now, whoever sent it. Only how deep it goes is still to be seen, and quickly:
    it may be megabytes of brackets, and the event loop waits.

    Raises:
        InvalidOutput: It is too deep for whoever reads it next.
    """
    level = [] if type(output.output) in _FLAT else [output.output]
    for _ in range(_DEEPEST):
        level = [
            item
            for each in level
            for item in (each.values() if type(each) is dict else each)
            if type(item) not in _FLAT
        ]
    if level:
        raise _too_deep()
    return output


def check_output(output: Output, tool: Tool) -> tuple[str, ...]:
    """Hold a result to the output schema of its tool; the warnings if it does not fit, and the tool only warns.

    Raises:
        InvalidOutput: It does not fit a schema that is enforced.
    """
    if tool.output_validator is None or not (problems := tool.output_validator.problems(output.output)):
        return ()
    if tool.check_output == "enforce":
        raise InvalidOutput("; ".join(problems))
    return (f"the result is not what the return annotation of {tool.name!r} says: {'; '.join(problems)}",)


def resolve_handler_value(value: Any) -> Any:
    """What a handler returned, or what comes of the awaitable that it returned, in a loop of its own."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _output(value: Any, warnings: str | Iterable[Any], attachments: Iterable[Any]) -> Output:
    plain, found = _json(value)
    said = (warnings,) if isinstance(warnings, str) else map(str, warnings)
    return Output(plain, (*map(without_surrogates, said), *found), tuple(map(_attachment, attachments)))


def _attachment(value: Any) -> Attachment:
    try:
        given = value if isinstance(value, Attachment) else Attachment.from_dict(value)
        return Attachment(without_surrogates(given.name), without_surrogates(given.media_type), given.data)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidOutput(f"an attachment needs name, media_type and data: {error}") from error


def _json(value: Any) -> tuple[Any, tuple[str, ...]]:
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_or_base64(bytes(value))
    try:
        plain = msgspec.to_builtins(_ordered(value, 0), str_keys=True, enc_hook=_hook)
        encoded = _encoded(plain)
    except RecursionError:
        raise _too_deep() from None
    except InvalidOutput:
        raise
    except Exception as error:  # a value may run any code of its own while it is read
        digits = "an integer in it has too many digits; return it as text" if _is_digits(error) else None
        raise InvalidOutput(digits or describe_exception(error)) from error
    # Objects of a class may be nested where `_ordered` does not look. Without so many brackets nothing is.
    if encoded.count(b"[") + encoded.count(b"{") > _DEEPEST:
        _check_depth(plain, 0)
    # msgspec writes NaN and infinities as null: only then is a closer look needed.
    odd = not encoded or (b"null" in encoded and _has_odd_number(plain))
    # Read back, a tuple is a list: the result of now is equal to the one in the record.
    return _mended(plain, escaping=not encoded) if odd else (msgspec.json.decode(encoded), ())


def _is_digits(error: Exception) -> bool:
    """Whether this is what Python says of an integer that it will not write as decimals."""
    return type(error) is ValueError and "digits) for integer string conversion" in str(error)


def _encoded(plain: Any) -> bytes:
    """The value as JSON, or nothing if half of a surrogate pair is in its way."""
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:
        _check_depth(plain, 0)
        return b""


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, dict | list | tuple):
        if depth >= _DEEPEST:
            raise _too_deep()
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _FLAT:
                _check_depth(item, depth + 1)


def _too_deep() -> InvalidOutput:
    return InvalidOutput(f"it is nested deeper than {_DEEPEST} levels, or refers to itself")


def _hook(value: Any) -> Any:
    """Types that msgspec does not know."""
    match value:
        case Secret():
            return MASK
        case str():
            return "".join(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case PurePath() | datetime.tzinfo():
            return str(value)
        case Mapping():
            return dict(value)
        case deque() | range():
            return list(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True)  # the names that its schema has
    raise InvalidOutput(
        f"it holds {type(value).__name__!r}, which has no JSON form; return text, numbers, lists, dicts or dataclasses"
    )


def _ordered(value: Any, depth: int) -> Any:
    """The same value with its sets in order: they have none of their own, and the record needs one."""
    if depth > _DEEPEST:
        raise _too_deep()
    below = depth + 1
    if isinstance(value, dict):
        _check_keys(value)
        return {key: item if type(item) in _FLAT else _ordered(item, below) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [item if type(item) in _FLAT else _ordered(item, below) for item in value]
    if isinstance(value, set | frozenset):
        try:
            return sorted(value)
        except TypeError:
            return sorted(value, key=repr)
    return value


def _check_keys(value: dict[Any, Any]) -> None:
    """An object has text keys. Numbers become text, and then two keys may be one."""
    if set(map(type, value)) - {str} and len(set(map(str, value))) < len(value):
        raise InvalidOutput("an object has two keys that are the same as text, as in {1: …, '1': …}")


def _text_or_base64(data: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        return data.decode(), ()
    except UnicodeDecodeError:
        return encode_data(data), (f"the tool returned {len(data)} bytes that are not text; they are sent as base64",)


def _has_odd_number(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_has_odd_number, value.values()))
        case list() | tuple():
            return any(map(_has_odd_number, value))
    return False


def _mended(value: Any, *, escaping: bool) -> tuple[Any, tuple[str, ...]]:
    """Spell out what JSON cannot hold, and say so.

    Where halves of surrogate pairs are escaped, so is every backslash: what was there before can be told.
    """
    warnings = {_ESCAPED} if escaping else set[str]()

    def mend(item: Any) -> Any:
        match item:
            case float() if not math.isfinite(item):
                warnings.add("a number that JSON has not (NaN or infinity) is sent as text")
                return str(item)
            case str() if escaping:
                return without_surrogates(item.replace("\\", "\\\\"))
            case dict():
                return {mend(key): mend(sub) for key, sub in item.items()}
            case list() | tuple():
                return [mend(sub) for sub in item]
        return item

    return mend(value), tuple(sorted(warnings))


SMALLEST = 200
"""Characters: below this there would be no room for the note."""


async def bound_output(
    content: Any, limit: int, spill: Spill | None
) -> tuple[Any, SpilledOutput | None, tuple[str, ...]]:
    """The content, or as much of its text as fits with a note; where the whole is kept; a warning if it was cut."""
    if isinstance(content, str):
        if len(content) <= limit:
            return content, None, ()
        text = content
    else:
        encoded = msgspec.json.encode(content)
        if len(encoded) <= limit:
            return content, None, ()
        text = encoded.decode()
        if len(text) <= limit:
            return content, None, ()
    kept, warnings = await _kept(text, spill)
    shown, note = cut_text(text, limit, kept.id if kept else None)
    return shown + note, kept, (f"output cut: {len(shown):,} of {len(text):,} characters sent", *warnings)


async def _kept(text: str, spill: Spill | None) -> tuple[SpilledOutput | None, tuple[str, ...]]:
    if spill is None:
        return None, ()
    try:
        return SpilledOutput(await spill.put(text), len(text)), ()
    except OSError as error:  # the tool ran: a full disk must not take its result away
        return None, (f"the whole output could not be kept: {describe_exception(error)}",)


def cut_text(text: str, limit: int, id: str | None) -> tuple[str, str]:
    """The part that fits, and the note behind it. Together they are never longer than the limit."""
    room = limit - len(_note(len(text), len(text), id))
    if room < 0:
        return text[: cut_position(text, limit - 1)] if limit > 1 else "", "…" if limit > 0 else ""
    shown = text[: cut_position(text, room)]
    return shown, _note(len(shown), len(text), id)


def cut_position(text: str, most: int) -> int:
    """The position to cut at: a line end or a space if one is near, and never inside a character as readers see it."""
    if most >= len(text):
        return len(text)
    at = most
    while at > 0 and _joins(text[at - 1], text[at]):
        at -= 1
    nearest = max(text.rfind("\n", at - at // 10, at), text.rfind(" ", at - at // 10, at))
    found = nearest >= 0 and not _joins(text[nearest], text[nearest + 1])
    return nearest + 1 if found else at


def _joins(before: str, after: str) -> bool:
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or before == "\u200d"
        or after == "\u200d"
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colour of a skin
        or (before == "\r" and after == "\n")
    )


def _note(shown: int, total: int, id: str | None) -> str:
    rest = f"read on with read_output(id={id!r}, start={shown})" if id else "the rest was not kept"
    return f"\n[cut: {shown:,} of {total:,} characters; {rest}]"
