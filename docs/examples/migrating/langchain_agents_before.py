from langchain.agents import create_agent
from langchain.tools import tool


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


warehouse = create_agent("openai:gpt-4.1", tools=[find_order], system_prompt="You know the warehouse.")


@tool
def ask_warehouse(question: str) -> str:
    """Ask the warehouse."""
    asked = {"messages": [{"role": "user", "content": question}]}
    return str(warehouse.invoke(asked)["messages"][-1].content)


desk = create_agent("openai:gpt-4.1", tools=[ask_warehouse], system_prompt="You are the front desk.")
asked = {"messages": [{"role": "user", "content": "Ask the warehouse about order 17."}]}
print(desk.invoke(asked)["messages"][-1].content)
