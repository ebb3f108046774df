"""An agent of pydantic-ai with its model of responses: whole, streamed, and gone on from."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterable

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = OpenAIResponsesModel(
    "m", provider=OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
)
AGENT = Agent(MODEL, instructions="Be brief.")


@AGENT.tool_plain
def weather(city: str) -> str:
    """What the sky does."""
    return f"rain in {city}"


async def listen(context: object, events: AsyncIterable[object]) -> None:
    """With this, the model is asked for streams."""
    async for _ in events:
        pass


async def main() -> None:
    first = await AGENT.run("How warm?")
    again = await AGENT.run("Sure?", message_history=first.all_messages())
    streamed = await AGENT.run("How warm?", event_stream_handler=listen)  # `run_stream` ends at the first text
    history = streamed.all_messages()
    chained = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    later = await AGENT.run("Sure?", message_history=history, model_settings=chained)
    parts = [part.part_kind for message in history for part in message.parts]
    shown = sum(kind.endswith("tool-call") for kind in parts)
    print(json.dumps({"said": [first.output, again.output, streamed.output, later.output], "shown": shown}))


asyncio.run(main())
