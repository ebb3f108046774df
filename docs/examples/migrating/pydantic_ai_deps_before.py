from dataclasses import dataclass

from pydantic_ai import Agent, RunContext


@dataclass
class Shop:
    user: str
    orders: dict[int, str]


agent = Agent("openai-chat:gpt-4.1", deps_type=Shop)


@agent.tool
def find_order(ctx: RunContext[Shop], number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} of {ctx.deps.user}: {ctx.deps.orders[number]}."


print(agent.run_sync("Where is order 17?", deps=Shop("Ada", {17: "on its way"})).output)

with agent.override(deps=Shop("a test", {17: "made of paper"})):
    print(agent.run_sync("Where is order 17?", deps=Shop("Ada", {17: "on its way"})).output)
