from agents import Agent, Runner, function_tool, set_default_openai_api

set_default_openai_api("chat_completions")


@function_tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


warehouse = Agent(name="warehouse", instructions="You know the warehouse.", model="gpt-4.1", tools=[find_order])
ask_warehouse = warehouse.as_tool(tool_name="ask_warehouse", tool_description="Ask the warehouse.")
desk = Agent(name="desk", instructions="You are the front desk.", model="gpt-4.1", tools=[ask_warehouse])
print(Runner.run_sync(desk, "Ask the warehouse about order 17.").final_output)
