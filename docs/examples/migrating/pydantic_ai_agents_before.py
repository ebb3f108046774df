from pydantic_ai import Agent, RunContext

warehouse = Agent("openai-chat:gpt-4.1", instructions="You know the warehouse.")
desk = Agent("openai-chat:gpt-4.1", instructions="You are the front desk.")


@warehouse.tool_plain
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@desk.tool
async def ask_warehouse(ctx: RunContext, question: str) -> str:
    """Ask the warehouse."""
    result = await warehouse.run(question, usage=ctx.usage)
    return result.output


print(desk.run_sync("Ask the warehouse about order 17.").output)
