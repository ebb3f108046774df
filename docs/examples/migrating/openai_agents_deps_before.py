from dataclasses import dataclass

from agents import Agent, RunContextWrapper, Runner, function_tool, set_default_openai_api

set_default_openai_api("chat_completions")


@dataclass
class Shop:
    user: str
    orders: dict[int, str]


@function_tool
def find_order(ctx: RunContextWrapper[Shop], number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} of {ctx.context.user}: {ctx.context.orders[number]}."


agent = Agent[Shop](name="clerk", model="gpt-4.1", tools=[find_order])
ada = Shop("Ada", {17: "on its way"})
print(Runner.run_sync(agent, "Where is order 17?", context=ada).final_output)

fake = Shop("a test", {17: "made of paper"})
print(Runner.run_sync(agent, "Where is order 17?", context=fake).final_output)
