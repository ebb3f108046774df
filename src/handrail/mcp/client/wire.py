"""One message of a server, from bytes to what the SDK takes. Nothing here waits.

The SDK reads every message four times over and drops what it cannot read, which
leaves the caller waiting. Here it is read once, its number of values is bounded
(one that parses for a second blocks everybody else in the loop), text that is not
Unicode is mended, and what cannot be read still answers its request with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
)
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from handrail.core.jsontext import JSONTextError, parse_lightly
from handrail.mcp.client.failures import TransportFault, clean_server_text, schema_mistakes
from handrail.mcp.client.line_cutter import OverlongLine, answered_id, is_request_or_notice

MOST_VALUES = 30_000
"""The most values in one message: as empty lists they cost 50 ms, most of it for needless garbage collection."""
MOST_ITEMS = 5_000
"""The most items in one list of a result: each becomes an object of the SDK's, which takes time."""

_MENDED = 25_000
"""Values of a message, and escapes of surrogates in it, that are mended: that is done in Python, one by one."""
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD]")


class UnreadableLine(Exception):
    """A line that is no message and answers nobody: a server that prints where it should not."""


def read_message(line: bytes) -> JSONRPCMessage | None:
    """The message of a line; None for an empty one.

    Raises:
        Unreadable: It is none, and nobody is waiting for it.
    """
    if not line or line.isspace():
        return None
    if too_many_values(line):
        return _given_up(line, too_dense())
    try:
        return _message(parse_lightly(line))
    except JSONTextError as error:
        return _mended(line, error)


def mend_message(body: bytes, answers: int | str | None = None) -> bytes | TransportFault:
    """A message as one that the SDK can read: the same bytes, mended ones, or why there are none.

    `answers` is the request that it must answer: the SDK would wait for ever for one that answers another.

    Raises:
        Unreadable: As `read_message`.
    """
    if too_many_values(body):
        return too_dense()
    mended = False
    try:
        message = _message(parse_lightly(body))
    except JSONTextError as error:
        message, mended = _mended(body, error), True
    match message:
        case JSONRPCError(error=ErrorData(data=TransportFault() as fault)):
            return fault
        case JSONRPCError(id=None) if answers is not None:  # it was refused before its id was read
            message.id, mended = answers, True
        case JSONRPCResponse(id=id) | JSONRPCError(id=id) if answers is None or str(id) == str(answers):
            pass
        case _ if answers is not None:
            return TransportFault("unusable", "it answered with a message that is not an answer to what it was asked")
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() if mended else body


def refusal_of(line: OverlongLine, limit: int) -> JSONRPCError | None:
    """What a line that was too long is answered with; None for one that nobody waits for.

    Raises:
        Unreadable: Somebody may wait for it, and it cannot be told who.
    """
    if is_request_or_notice(line):
        return None
    id = answered_id(line)
    if id is None:
        raise UnreadableLine(f"a message of more than {limit} bytes that answers no known request; raise `max_message`")
    return substitute_answer(id, too_long(limit))


def too_long(limit: int) -> TransportFault:
    return TransportFault(
        "too_large", f"it sent an answer of more than {limit} bytes; ask for less, or raise `max_message`"
    )


def substitute_answer(id: int | str | None, fault: TransportFault) -> JSONRPCError:
    """What stands for an answer that cannot be passed on."""
    error = ErrorData.model_construct(code=PARSE_ERROR, message=fault.why, data=fault)
    return JSONRPCError.model_construct(jsonrpc="2.0", id=id, error=error)


def too_many_values(line: bytes, most: int = MOST_VALUES) -> bool:
    if line.count(b",") <= most:
        return False
    # A value has at most two strings, its key included; when that many were seen, the rest need not be.
    rest, strings = _STRINGS.subn(b"", line, 2 * most + 2)
    return strings > 2 * most + 1 or rest.count(b",") > most


def too_dense() -> TransportFault:
    return TransportFault("too_large", f"it sent an answer with more than {MOST_VALUES} values; ask for less")


def too_many_items(result: dict[str, Any]) -> TransportFault | None:
    for name, value in result.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            why = f"its answer has {len(value)} {name} at once, and at most {MOST_ITEMS} are read; ask for less"
            return TransportFault("too_large", why)
    return None


def _message(value: Any) -> JSONRPCMessage:
    match value:
        case {"id": int() | str() as id, "result": dict() as result} if not isinstance(id, bool):
            if (fault := too_many_items(result)) is not None:
                return substitute_answer(id, fault)
            return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id, result=result)
        case {"method": str() as method, **rest} if isinstance(params := rest.get("params"), dict | None):
            return _asked(method, rest.get("id"), params)
        case {"id": int() | str() | None as id, "error": {"code": int() as code, "message": str() as message, **more}}:
            said = ErrorData.model_construct(code=code, message=message, data=more.get("data"))
            return JSONRPCError.model_construct(jsonrpc="2.0", id=id, error=said)
        case {"id": int() | str() as id} if not isinstance(id, bool):
            return substitute_answer(
                id, TransportFault("unusable", "it answered with something that is neither a result nor an error")
            )
    raise UnreadableLine("a line of JSON that is not a message")


def _asked(method: str, id: Any, params: dict[str, Any] | None) -> JSONRPCMessage:
    # Left out when there are none: written again, an explicit null would not be JSON-RPC.
    given: dict[str, Any] = {} if params is None else {"params": params}
    if isinstance(id, int | str) and not isinstance(id, bool):
        return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, **given)
    return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, **given)


def _mended(line: bytes, error: JSONTextError) -> JSONRPCMessage:
    """Read again, with what is no Unicode replaced; halves of surrogate pairs are how JavaScript cuts text."""
    if too_many_values(line, _MENDED) or len(_SURROGATE.findall(line)) > _MENDED:
        return _given_up(
            line, TransportFault("too_large", f"its answer cannot be read, and is too large to mend: {error}")
        )
    try:
        value = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse)
        return _message(_without_halves(value, 0))
    except (ValueError, RecursionError):
        return _given_up(line, TransportFault("unusable", f"its answer cannot be read: {error}"))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _without_halves(value: Any, depth: int) -> Any:
    if depth > 100:
        raise ValueError("nested too deeply")
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_without_halves(item, depth + 1) for item in value]
        case dict():
            return {_without_halves(key, 0): _without_halves(item, depth + 1) for key, item in value.items()}
    return value


def _given_up(line: bytes, fault: TransportFault) -> JSONRPCError:
    ends = OverlongLine(line[:4096], line[-1024:])
    id = answered_id(ends)
    if id is None:
        raise UnreadableLine(fault.why)
    return substitute_answer(id, fault)


_LISTED = "dev.handrail/listed"
"""The field of `_meta` in which a listing carries its original names, each with why it was taken out, or None."""

_MOST = 1_000
"""Tools at once that are looked at one by one: it is done in the loop."""


def remove_malformed_tools(result: dict[str, Any], *, modern: bool) -> None:
    """Take out of a listing what the SDK would refuse. Any other result is left as it is."""
    tools = result.get("tools")
    if not isinstance(tools, list) or len(tools) > _MOST or "content" in result:
        return
    sound = _why_not(modern, tools) is None
    listed: dict[str, str | None] = {}
    good = []
    for number, tool in enumerate(tools, 1):
        why = None if sound else _why_not(modern, [tool])
        if why is None:
            good.append(tool)
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name if isinstance(name, str) else f"(number {number})"
        listed[name] = listed.get(name) or why
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), _LISTED: listed}
    result["tools"] = good


def missing_tools(page: ListToolsResult) -> Iterator[tuple[str, str]]:
    """The tools that the server listed and the page does not have, and why."""
    listed = (page.meta or {}).get(_LISTED)
    there = {tool.name for tool in page.tools}
    for name, why in (listed if isinstance(listed, dict) else {}).items():
        if why is not None:
            yield name, f"it is not described as the protocol wants it: {why}"
        elif name not in there:
            yield name, "the headers that it wants its arguments in (`x-mcp-header`) are not valid"


@cache
def _shapes(modern: bool) -> tuple[TypeAdapter[Any], ...]:
    """The SDK reads each tool twice: as the revision of its era has it, and as it has it itself."""
    revision = LATEST_MODERN_VERSION if modern else LATEST_HANDSHAKE_VERSION
    surface: Any = SERVER_RESULTS[("tools/list", revision)]
    lists: list[Any] = [kind.model_fields["tools"].annotation for kind in (surface, ListToolsResult)]
    return tuple(map(TypeAdapter, lists))


def _why_not(modern: bool, tools: list[Any]) -> str | None:
    try:
        for shape in _shapes(modern):
            shape.validate_python(tools, by_name=False)
    except ValidationError as error:
        return clean_server_text(re.sub(r"^0[.:] ?", "", schema_mistakes(error)))
    return None
