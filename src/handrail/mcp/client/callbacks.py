"""The questions of servers, from the words of the official package to ours and back.

In both eras they come this way: as requests of the server up to 2025-11-25, and as
the `input_required` rounds of a call from 2026-07-28 on. A callback never raises: it
would take the connection with it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import mcp_types
from mcp.client.session import ClientRequestContext
from pydantic import TypeAdapter

from handrail.core.errors import HandrailError, ToolError
from handrail.core.messages import (
    AssistantMessage,
    Content,
    Media,
    Message,
    StopReason,
    SupervisorMessage,
    Text as Words,
    UserMessage,
)
from handrail.core.model_request import ModelRequest
from handrail.core.redact import redact_text
from handrail.mcp.client.content import decode_base64
from handrail.mcp.client.question_pause import PausingQuestionHandler
from handrail.mcp.client.server_questions import ClientRefused, Kind, ServerQuestionHandler

T = TypeVar("T")
logger = logging.getLogger(__name__)

_REJECTED = -1
"""What the specification gives as the code of a request that the user rejected."""
_AT_ONCE = 8
"""Questions of one connection that may wait for an answer: nobody can read a thousand."""
_STOPS: dict[StopReason, str] = {"end": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


def callbacks(asking: ServerQuestionHandler, server: str) -> dict[str, Any]:
    """Keyword arguments for `mcp.Client`: only for what can be answered, so that nothing else is announced."""
    open_questions: set[object] = set()
    made: dict[Kind, tuple[str, Callable[..., Awaitable[Any]]]] = {
        "elicitation": ("elicitation_callback", _elicitation(asking, server)),
        "sampling": ("sampling_callback", _sampling(asking, server)),
        "roots": ("list_roots_callback", _roots(asking)),
    }
    if isinstance(asking, PausingQuestionHandler):
        for kind in asking.passed:
            made[kind] = made[kind][0], _PASSED[kind](asking, server)
    return {
        name: _answering(made[kind][1], open_questions) for kind in sorted(asking.answers) for name in made[kind][:1]
    }


def _passed_request(method: str, result: Any) -> Callable[[PausingQuestionHandler, str], Callable[..., Awaitable[Any]]]:
    """Questions of this method go to the client that the server works for, and its answers come back, as they are."""

    def passing(asking: PausingQuestionHandler, server: str) -> Callable[..., Awaitable[Any]]:
        async def ask(context: ClientRequestContext, params: Any = None) -> Any:
            asked = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_unset=True)
            return result.validate_python(await asking.passed_on(server, method, asked), by_name=False)

        return ask

    return passing


_PASSED: dict[Kind, Callable[[PausingQuestionHandler, str], Callable[..., Awaitable[Any]]]] = {
    "elicitation": _passed_request("elicitation/create", TypeAdapter(mcp_types.ElicitResult)),
    "sampling": _passed_request(
        "sampling/createMessage",
        TypeAdapter(mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools),
    ),
    "roots": _passed_request("roots/list", TypeAdapter(mcp_types.ListRootsResult)),
}


def _answering(
    callback: Callable[..., Awaitable[T]], open_questions: set[object]
) -> Callable[..., Awaitable[T | mcp_types.ErrorData]]:
    @wraps(callback)
    async def answer(*given: Any) -> T | mcp_types.ErrorData:
        if len(open_questions) >= _AT_ONCE:
            words = f"{_AT_ONCE} questions wait for an answer already; ask again when they have one"
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=words)
        question = object()
        open_questions.add(question)
        try:
            return await callback(*given)
        except ClientRefused as refusal:
            return mcp_types.ErrorData(code=refusal.rpc_code, message=refusal.message, data=refusal.data)
        except ToolError as refusal:
            return mcp_types.ErrorData(code=_REJECTED, message=refusal.message)
        except HandrailError as error:
            return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message=redact_text(str(error)))
        except Exception:  # a stranger need not know what goes on in here
            logger.exception("a question of an MCP server could not be answered")
            return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message="the host could not answer")
        finally:
            open_questions.discard(question)

    return answer


def _elicitation(asking: ServerQuestionHandler, server: str) -> Callable[..., Awaitable[Any]]:
    async def elicit(
        context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            got = await asking.elicit(server, params.message, None, params.url)
            return mcp_types.ElicitResult(action=got.action)
        got = await asking.elicit(server, params.message, params.requested_schema, None)
        return mcp_types.ElicitResult(action=got.action, content=got.values if got.action == "accept" else None)

    return elicit


def _sampling(asking: ServerQuestionHandler, server: str) -> Callable[..., Awaitable[Any]]:
    async def sample(
        context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        if params.tools:
            return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message="sampling with tools is not offered here")
        got = await asking.sample(server, sampling_request_of(params))
        return mcp_types.CreateMessageResult(
            role="assistant",
            content=mcp_types.TextContent(text=got.text),
            model=got.model,
            stop_reason=_STOPS.get(got.stop, got.stop),
        )

    return sample


def _roots(asking: ServerQuestionHandler) -> Callable[..., Awaitable[Any]]:
    async def roots(context: ClientRequestContext) -> mcp_types.ListRootsResult:
        listed = [{"uri": root.absolute().as_uri(), "name": root.name} for root in asking.roots]
        return mcp_types.ListRootsResult.model_validate({"roots": listed})

    return roots


def sampling_request_of(params: mcp_types.CreateMessageRequestParams) -> ModelRequest:
    """What a server would have a model asked, in our words. Its wishes about the model are not heard."""
    system = (SupervisorMessage(params.system_prompt),) if params.system_prompt else ()
    return ModelRequest(
        messages=(*system, *map(_message, params.messages)),
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        stop=tuple(params.stop_sequences or ()),
    )


def _message(message: mcp_types.SamplingMessage) -> Message:
    parts = tuple(map(_part, message.content_as_list))
    if message.role == "user":
        return UserMessage(parts)
    return AssistantMessage("".join(part.text for part in parts if isinstance(part, Words)))


def _part(block: mcp_types.SamplingMessageContentBlock) -> Content:
    match block:
        case mcp_types.TextContent():
            return Words(block.text)
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return Media(media_type=block.mime_type, data=decode_base64(block.data))
    return Words(f"({block.type} is not passed on)")
