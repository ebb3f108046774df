"""Messages as people are shown them."""

from __future__ import annotations

import msgspec
from hypothesis import given, strategies as st

from handrail import ToolCall, ToolResult
from handrail.core.calls import Problem
from handrail.core.events import CallSettled
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    Text,
    UserMessage,
)
from handrail.desk.live_turn import TurnAssembler
from handrail.desk.message_view import MessageView
from handrail.desk.values import ConversationItem
from handrail.tools.registry import registered

SHOWN = MessageView(registered())


@given(st.text(max_size=40, alphabet=st.characters(exclude_categories=())))
def test_whatever_a_message_says_can_be_told(text: str) -> None:
    """Half a surrogate somewhere would end the stream of everybody who follows."""
    failed = ToolResult("c", text, text, "failed", Problem(text, text))
    said: tuple[Message, ...] = (
        UserMessage((Text(text), Media(media_type=text, url=text, name=text))),
        AssistantMessage(text, 1, text),
        DocumentMessage(text, text),
        InvocationMessage(ToolCall("c", text, {text: text})),
        ResultMessage(failed),
    )
    items = SHOWN.items(said)
    assert msgspec.json.decode(msgspec.json.encode(items), type=tuple[ConversationItem, ...]) == items
    settled = CallSettled(
        run="r", at=1, call_id="c", tool=text, outcome="failed", duration_us=1, ran=True, result=failed
    )
    assert msgspec.json.encode(TurnAssembler(SHOWN).take(settled))


def test_words_are_not_clipped_as_results_are() -> None:
    said = (UserMessage((Text("x" * 100_001),)), AssistantMessage("y" * 40_000), DocumentMessage("a", "ü" * 4_001))
    clipped = [(len(item.text.text), item.text.whole) for item in SHOWN.items(said) if item.text is not None]
    assert clipped == [(100_000, 100_001), (40_000, 0), (4_000, 4_001)]
