"""An agent of LangChain whose model asks for responses: whole, streamed, and gone on from."""

from __future__ import annotations

import json

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def weather(city: str) -> str:
    """What the sky does."""
    return f"rain in {city}"


def agent(**settings: bool) -> object:
    model = ChatOpenAI(model="m", use_responses_api=True, **settings)
    return create_agent(model, tools=[weather], system_prompt="Be brief.")


def main() -> None:
    plain, chained = agent(), agent(use_previous_response_id=True, streaming=True)
    asked = {"role": "user", "content": "How warm?"}
    sure = {"role": "user", "content": "Sure?"}
    first = plain.invoke({"messages": [asked]})
    again = plain.invoke({"messages": [*first["messages"], sure]})
    *_, streamed = chained.stream({"messages": [asked]}, stream_mode="values")
    later = chained.invoke({"messages": [*streamed["messages"], sure]})
    said = [state["messages"][-1].text for state in (first, again, streamed, later)]
    blocks = [block for message in streamed["messages"] for block in message.content if isinstance(block, dict)]
    calls = [call for message in streamed["messages"] for call in getattr(message, "tool_calls", ())]
    shown = len(calls) + sum(block.get("type") == "mcp_call" for block in blocks)
    print(json.dumps({"said": said, "shown": shown}))


main()
