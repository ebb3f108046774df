"""Arguments that a small model copies from an earlier call although the question names another value.

After "Order 2 umbrellas." it may answer "Order 1 boot." with one more umbrella. Asked without the earlier
conversation it gets that right; but then it cannot know what "them" means. So it is asked again only where a value
was copied and the question refers to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import InvocationMessage, SupervisorMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.local.answers.claims import AnswerEvidence, claim_tokens

_REFERRING = frozenset(
    (
        *("it", "them", "that", "those", "this", "these", "one", "ones", "again", "same", "he", "she", "his", "her"),
        *("they", "their", "him", "another", "more", "also", "too"),
        *("es", "sie", "ihn", "ihm", "ihr", "ihre", "sein", "seine", "davon", "dieser", "diese", "dieses", "diesen"),
        *("nochmal", "wieder", "dasselbe", "dieselbe", "noch", "auch", "dazu", "dort"),
    )
)
"""Words that mean something of the earlier conversation."""


def copies_earlier_argument(request: ModelRequest, calls: Sequence[ToolCall]) -> bool:
    """Whether a call has a value of an earlier call that the question neither says nor refers to."""
    question = next((message.text for message in reversed(request.messages) if isinstance(message, UserMessage)), "")
    if not _REFERRING.isdisjoint(token.casefold() for token in claim_tokens(question)):
        return False
    earlier = {
        value
        for message in request.messages
        if isinstance(message, InvocationMessage)
        for value in _values(request, message.call)
    }
    asked = AnswerEvidence([question])
    copied = (value for call in calls for value in _values(request, call) if value in earlier)
    return any(not all(asked.has(token) for token in claim_tokens(value)) for value in copied)


def without_earlier_turns(request: ModelRequest) -> ModelRequest:
    """The request without what was said before its last question, but for what the program told the model."""
    last = max(at for at, message in enumerate(request.messages) if isinstance(message, UserMessage))
    told = tuple(message for message in request.messages[:last] if isinstance(message, SupervisorMessage))
    return replace(request, messages=(*told, *request.messages[last:]), scratch=None)


def _values(request: ModelRequest, call: ToolCall) -> set[str]:
    """The texts that the call was given where the schema leaves the choice to the model."""
    schema = next((tool.input_schema for tool in request.tools if tool.name == call.name), {})
    properties = schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    try:
        given = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments or "{}")
    except JSONTextError:
        return set()
    return {
        value.casefold()
        for name, value in given.items()
        if isinstance(value, str) and "enum" not in named.get(name, {})
    }
