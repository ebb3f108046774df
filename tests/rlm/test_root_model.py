"""The root model as a model that calls one tool."""

from __future__ import annotations

import pytest

from handrail.core.calls import ToolResult
from handrail.core.errors import LimitExceeded
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Conversation, Message, ResultMessage, Usage
from handrail.core.model_request import ModelRequest, ToolChoice, ToolOffer
from handrail.rlm.repl.root_model import ReplModel
from handrail.rlm.repl.turns import ReplBlock, ReplFinal, ReplResult
from tests.rlm.root_models import Root
from tests.rlm.test_root_transcript import conversation


async def nothing(messages: tuple[Message, ...], shown: tuple[Message, ...] | None) -> None:
    return None


def model_of(inner: Root, *, max_errors: int | None = None) -> ReplModel:
    return ReplModel(inner, before=nothing, spend=lambda model, usage: None, check=lambda: None, max_errors=max_errors)


async def said(model: ReplModel, messages: Conversation, tool_choice: ToolChoice = "auto") -> list[ModelEvent]:
    request = ModelRequest(messages=messages.messages, tools=(ToolOffer("repl", "", {}),), tool_choice=tool_choice)
    return [event async for event in model.stream(request)]


async def test_a_reply_is_one_call_with_all_of_its_code() -> None:
    inner = Root("So:\n```repl\na\n```\n```repl\nb\n```\nFINAL_VAR(x)", usage=Usage(output_tokens=3))
    events = await said(model_of(inner), Conversation().say("question"))

    *words, call, end = events
    assert isinstance(call, CallRequested) and isinstance(end, ReplyFinished)
    assert call.call.name == "repl"
    assert call.call.arguments == {"blocks": ["a", "b"], "final_var": "x"}
    assert (end.stop, end.usage.output_tokens) == ("tool_calls", 3)
    assert all(isinstance(each, TextDelta) for each in words)
    assert inner.requests[0].tools == ()


async def test_a_final_answer_is_the_reply_and_nobody_is_asked() -> None:
    inner = Root()
    whole = conversation(["a"])
    result = ToolResult("c0", "repl", ReplResult(final=ReplFinal("42"), blocks=(ReplBlock(ending="ok"),)).to_dict())
    ended = Conversation((*whole.messages[:-1], ResultMessage(result)))

    assert await said(model_of(inner), ended) == [
        TextDelta(text="42"),
        ReplyFinished(stop="end", model="root"),
    ]
    assert inner.requests == []


async def test_a_reply_to_the_last_question_makes_no_call() -> None:
    inner = Root("```repl\nmore()\n```")
    events = await said(model_of(inner), Conversation().say("question"), tool_choice="none")

    assert not any(isinstance(event, CallRequested) for event in events)
    assert inner.requests[0].tool_choice == "auto"


async def test_turns_in_a_row_that_fail_end_a_run() -> None:
    failing = ReplResult(blocks=(ReplBlock(ending="error"),)).to_dict()
    whole = conversation(["fine", "bad", "bad"])
    messages = tuple(
        ResultMessage(ToolResult(each.invocation_id, "repl", failing))
        if isinstance(each, ResultMessage) and each.invocation_id != "c0"
        else each
        for each in whole.messages
    )

    with pytest.raises(LimitExceeded, match="2 turns in a row that failed"):
        await said(model_of(Root("x"), max_errors=2), Conversation(messages))
    assert await said(model_of(Root("", "", "", "x"), max_errors=3), Conversation(messages))
