"""The scenes with handrail: `Session`."""

from __future__ import annotations

from scenes import SCHEMA, cancel_when, show
from service import MODEL

from handrail import Limits, Policy, Session, Tool, ToolDefinition, create_llm, tool

FREE = Policy(confirm_side_effects=False)


def session(url, *tools, turns=10):
    llm = create_llm(f"compatible:{MODEL}", base_url=url, stream=False)
    limits = Limits(iterations=turns, calls_per_turn=50)
    return Session(llm, tools=tools, policy=FREE, limits=limits)


def read(function):
    return tool(function, side_effects=False)


class Handrail:
    async def run(self, url, *functions, turns=10):
        async with session(url, *map(read, functions), turns=turns) as scene:
            await scene.agenerate_with_tools("Go.")

    async def run_schema(self, url, function):
        async def handler(invocation):
            return function(**invocation.arguments)

        definition = ToolDefinition(name="buy", description="Buy.", input_schema=SCHEMA, side_effects=True)
        async with session(url, Tool(definition, handler)) as scene:
            await scene.agenerate_with_tools("Go.")

    async def run_limited(self, url, function, seconds):
        async with session(url, tool(function, timeout=seconds, side_effects=True)) as scene:
            await scene.agenerate_with_tools("Go.")

    async def run_cancelled(self, url, *functions, ready):
        async with session(url, *(tool(each, side_effects=True) for each in functions)) as scene:
            await cancel_when(ready, scene.agenerate_with_tools("Go."))
            await scene.agenerate_with_tools("Go on.")


if __name__ == "__main__":
    show(Handrail())
