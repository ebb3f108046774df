"""What can go wrong with a server, in our words: one place in which the SDK's errors end.

The SDK raises its own error for everything, and pydantic's, plain `RuntimeError`
and groups besides. A caller of `Connection.use` sees none of them.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST
from pydantic import ValidationError

from handrail.core.errors import HandrailError, McpError, ServerLost, ServerRefused, ToolError, describe_exception

_LONGEST = 2000
"""Characters of a server's words that are passed on."""
_UNWRITTEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class TransportFault:
    """What our own transports found. It rides in the `data` of the SDK's error, where no server can put it."""

    kind: Literal["lost", "session", "refused", "too_large", "unusable"]
    """`session`: the server has forgotten us and did nothing. `refused`: it would not hear this, and seems to have
    forgotten us. `too_large`, `unusable`: only this one answer is bad."""
    why: str
    error: McpError | None = None
    """What to raise, where it is known better than in words."""


@dataclass(slots=True)
class SendAttempt:
    """One try of `use`. The transports note whether anything of it may have reached the server."""

    sent: bool = False


ATTEMPT: ContextVar[SendAttempt | None] = ContextVar("handrail_mcp_attempt", default=None)


class McpConnectionLost(Exception):
    """The connection under a request is gone. Inside these files only."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self._refused = refused

    def told(self, server: str, *, sent: bool) -> McpError:
        """What a caller hears for whom nothing is sent again."""
        return (
            ServerRefused(server, INVALID_REQUEST, self.why)
            if self._refused
            else ServerLost(server, self.why, sent=sent)
        )


class McpAnswerTooLarge(McpError):
    """An answer was longer than a message may be."""


def translate_error(server: str, error: Exception, *, over: bool) -> Exception:
    """An error of the SDK as one of ours, or as `McpConnectionLost`. `over`: the connection had ended by then."""
    match error:
        case HandrailError() | ToolError() | TimeoutError():
            return error
        case MCPError():
            return _answered(server, error, over)
        case BaseExceptionGroup():
            return translate_error(server, _first(error), over=over)
        case _ if over:
            return McpConnectionLost("the connection ended")
        case ValidationError():
            return McpError(server, f"it answered with something that is not a valid result: {schema_mistakes(error)}")
    return McpError(server, clean_server_text(describe_exception(error)))


def _answered(server: str, error: MCPError, over: bool) -> Exception:
    message = clean_server_text(error.message)
    match error.data:
        case TransportFault(error=McpError() as known):
            return known
        case TransportFault(kind="unusable", why=why):
            return McpError(server, why)
        case TransportFault(kind="too_large", why=why):
            return McpAnswerTooLarge(server, why)
        case TransportFault(kind=kind, why=why):
            return McpConnectionLost(why, refused=kind == "refused")
    # Only the SDK's own timeout is raised while a TimeoutError is handled; the code alone may be the server's.
    if isinstance(error.__context__, TimeoutError):
        return TimeoutError(f"MCP server {server!r} did not answer in time")
    # So is its own word that nothing could be written.
    if error.code == CONNECTION_CLOSED and (over or isinstance(error.__context__, _UNWRITTEN)):
        return McpConnectionLost("the connection ended before the answer came")
    return ServerRefused(server, error.code, message)


def _first(group: BaseExceptionGroup[BaseException]) -> Exception:
    """The error that says most: one of the SDK's or ours before any other."""
    leaves = [leaf for leaf in _leaves(group) if isinstance(leaf, Exception)]
    told = [leaf for leaf in leaves if isinstance(leaf, (MCPError, HandrailError, ToolError))]
    return (told or leaves or [RuntimeError("cancelled")])[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


def schema_mistakes(error: ValidationError) -> str:
    # Without the input: it may be megabytes.
    found = error.errors(include_url=False, include_context=False, include_input=False)[:1]
    return clean_server_text("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found))


def failure_reason(error: BaseException) -> str:
    """Why a connection could not be made, or broke, in one line."""
    match error:
        case BaseExceptionGroup():
            return failure_reason(_first(error))
        case MCPError(data=TransportFault(why=why)) | McpConnectionLost(why=why):
            return why
        case MCPError():
            return clean_server_text(error.message)
        case McpError(why=why):
            return why
        case ValidationError():
            return f"it answered with something that is not a valid result: {schema_mistakes(error)}"
    return clean_server_text(describe_exception(error))


def clean_server_text(text: str) -> str:
    """A server's words for people: cut, and without what would move the cursor."""
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in short)
