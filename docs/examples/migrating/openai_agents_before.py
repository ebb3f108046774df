import json

from agents import Agent, Runner, SQLiteSession, function_tool, set_default_openai_api

set_default_openai_api("chat_completions")


@function_tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@function_tool(needs_approval=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


agent = Agent(name="shop", instructions="You work for a shop.", model="gpt-4.1", tools=[find_order, refund])
session = SQLiteSession("ticket-5")

result = Runner.run_sync(agent, "Where is order 17?", session=session)
print(result.final_output)

result = Runner.run_sync(agent, "Refund 17 with 2450 cents.", session=session)
while result.interruptions:
    state = result.to_state()
    for call in result.interruptions:
        print("asked:", call.name, json.loads(call.arguments))
        state.approve(call)
    result = Runner.run_sync(agent, state, session=session)
print(result.final_output)
