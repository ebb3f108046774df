from handrail import Session, create_llm, tool
from handrail.confirm import Confirmation


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@tool(side_effects=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


def clerk(question: Confirmation) -> bool:
    print("asked:", question.tool, question.arguments)
    return True


with (
    create_llm("openai:gpt-4.1") as llm,
    Session(
        llm,
        tools=[find_order, refund],
        system_prompt="You work for a shop.",
        approver=clerk,
    ) as session,
):
    print(session.ask("Where is order 17?"))
    print(session.ask("Refund 17 with 2450 cents."))
    session.save("talks")
