import asyncio

from agents import Agent, Runner, set_default_openai_api
from openai.types.responses import ResponseTextDeltaEvent

set_default_openai_api("chat_completions")


async def main() -> None:
    result = Runner.run_streamed(Agent(name="greeter", model="gpt-4.1"), "Hello!")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="", flush=True)
    print()


asyncio.run(main())
