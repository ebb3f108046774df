"""Which tools are shown when there are many."""

from __future__ import annotations

import pytest

from handrail.core.calls import ToolCall
from handrail.core.messages import InvocationMessage, Message, Text, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.local.tool_router import LocalToolRouter
from handrail.testing.embedding import WordEmbedder

WORDS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbour", "island", "jungle")
TOOLS = tuple(ToolOffer(f"{word}_tool", f"Do something with {word}", {"type": "object"}) for word in WORDS)


def _request(said: str, *messages: Message, choice: ToolChoice = "auto") -> ModelRequest:
    return ModelRequest(messages=(*messages, UserMessage((Text(said),))), tools=TOOLS, tool_choice=choice)


def test_the_tools_nearest_to_what_was_said_are_shown_in_their_order() -> None:
    shown = LocalToolRouter(WordEmbedder, 2).choose(_request("walk from the jungle to the bridge"))
    assert [tool.name for tool in shown] == ["bridge_tool", "jungle_tool"]


def test_few_tools_are_all_shown_and_nothing_is_loaded_for_it() -> None:
    def loads() -> WordEmbedder:
        raise NotImplementedError

    assert LocalToolRouter(loads, len(TOOLS)).choose(_request("anything")) == TOOLS


def test_without_an_embedder_all_are_shown() -> None:
    assert LocalToolRouter(None, 2).choose(_request("anything")) == TOOLS


def test_a_tool_that_was_called_stays_in_view() -> None:
    called = InvocationMessage(ToolCall("1", "harbour_tool", {}))
    shown = LocalToolRouter(WordEmbedder, 2).choose(_request("the jungle", called))
    assert [tool.name for tool in shown] == ["harbour_tool", "jungle_tool"]


@pytest.mark.parametrize("word", WORDS)
def test_a_named_tool_is_the_only_one_shown(word: str) -> None:
    shown = LocalToolRouter(WordEmbedder, 2).choose(_request("the jungle", choice=NamedTool(f"{word}_tool")))
    assert [tool.name for tool in shown] == [f"{word}_tool"]
