from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent("openai-chat:gpt-4.1")


@agent.tool_plain
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


model = TestModel(call_tools=["find_order"], custom_output_text="It is on its way.")
with agent.override(model=model):
    print(agent.run_sync("Where is order 17?").output)
