from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool


@dataclass
class Shop:
    user: str
    orders: dict[int, str]


@tool
def find_order(runtime: ToolRuntime[Shop], number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} of {runtime.context.user}: {runtime.context.orders[number]}."


agent = create_agent("openai:gpt-4.1", tools=[find_order], context_schema=Shop)
asked = {"messages": [{"role": "user", "content": "Where is order 17?"}]}
ada = Shop("Ada", {17: "on its way"})
print(agent.invoke(asked, context=ada)["messages"][-1].content)

fake = Shop("a test", {17: "made of paper"})
print(agent.invoke(asked, context=fake)["messages"][-1].content)
