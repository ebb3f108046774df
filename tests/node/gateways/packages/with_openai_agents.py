"""An agent of openai-agents with its default model, which asks for responses: whole, streamed, and gone on from."""

from __future__ import annotations

import asyncio
import json

from agents import Agent, Runner, function_tool


@function_tool
def weather(city: str) -> str:
    """What the sky does."""
    return f"rain in {city}"


AGENT = Agent(name="clerk", instructions="Be brief.", model="m", tools=[weather])


async def main() -> None:
    first = await Runner.run(AGENT, "How warm?")
    again = await Runner.run(AGENT, [*first.to_input_list(), {"role": "user", "content": "Sure?"}])
    streamed = Runner.run_streamed(AGENT, "How warm?")
    kinds = [event.name async for event in streamed.stream_events() if event.type == "run_item_stream_event"]
    later = await Runner.run(AGENT, "Sure?", previous_response_id=streamed.last_response_id)
    said = [first.final_output, again.final_output, streamed.final_output, later.final_output]
    print(json.dumps({"said": said, "shown": kinds.count("tool_called")}))


asyncio.run(main())
