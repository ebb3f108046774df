"""What the embedded model is shown of a conversation."""

from __future__ import annotations

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.providers.local.plan import recent


def test_of_earlier_questions_only_the_words_remain_and_of_the_last_one_everything() -> None:
    asked = InvocationMessage(ToolCall("1", "add", {}))
    told = ResultMessage(ToolResult("1", "add", 3))
    said = AssistantMessage("It is 3.")
    conversation = Conversation().say("1 + 2?").add(asked, told, said).say("and 3 + 4?").add(asked, told)

    first, words, second, *rest = recent(conversation.messages)

    assert (first, words, second) == (conversation.messages[0], said, conversation.messages[4])
    assert rest == [asked, told]
