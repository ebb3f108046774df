from handrail import Session, create_llm, tool
from handrail.confirm import Allow, Confirmation, Decision


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@tool(side_effects=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


class Clerk:
    async def decide(self, question: Confirmation) -> Decision:
        print("asked:", question.tool, question.arguments)
        return Allow("ada")


with (
    create_llm("openai:gpt-4.1") as llm,
    Session(
        llm,
        tools=[find_order, refund],
        system_prompt="You work for a shop.",
        approver=Clerk(),
        journal="journal.db",
    ) as session,
):
    print(session.ask("Where is order 17?"))
    print(session.ask("Refund 17 with 2450 cents."))
