from handrail import Agent, Session, create_llm, tool


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


with create_llm("openai:gpt-4.1") as llm:
    warehouse = Agent(
        llm,
        name="warehouse",
        description="Ask the warehouse.",
        system_prompt="You know the warehouse.",
        tools=[find_order],
    )
    with Session(llm, system_prompt="You are the front desk.", tools=[warehouse.as_tool()]) as session:
        print(session.ask("Ask the warehouse about order 17."))
