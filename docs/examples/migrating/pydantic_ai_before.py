from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults

agent = Agent(
    "openai-chat:gpt-4.1",
    instructions="You work for a shop.",
    output_type=[str, DeferredToolRequests],
)


@agent.tool_plain
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@agent.tool_plain(requires_approval=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


result = agent.run_sync("Where is order 17?")
print(result.output)

result = agent.run_sync("Refund 17 with 2450 cents.", message_history=result.all_messages())
if isinstance(result.output, DeferredToolRequests):
    given = DeferredToolResults()
    for call in result.output.approvals:
        print("asked:", call.tool_name, call.args_as_dict())
        given.approvals[call.tool_call_id] = True
    result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=given)
print(result.output)
