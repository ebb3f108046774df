from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@tool
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


agent = create_agent(
    "openai:gpt-4.1",
    tools=[find_order, refund],
    system_prompt="You work for a shop.",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "ticket-5"}}


def say(words):
    return agent.invoke({"messages": [{"role": "user", "content": words}]}, config)


state = say("Where is order 17?")
print(state["messages"][-1].content)

state = say("Refund 17 with 2450 cents.")
while "__interrupt__" in state:
    decisions = []
    for request in state["__interrupt__"][0].value["action_requests"]:
        print("asked:", request["name"], request["args"])
        decisions.append({"type": "approve"})
    state = agent.invoke(Command(resume={"decisions": decisions}), config)
print(state["messages"][-1].content)
