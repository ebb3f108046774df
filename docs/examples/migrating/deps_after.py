from dataclasses import dataclass

from handrail import Invocation, Session, tool


@dataclass
class Shop:
    user: str
    orders: dict[int, str]


@tool
def find_order(invocation: Invocation[Shop], number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} of {invocation.deps.user}: {invocation.deps.orders[number]}."


ada = Shop("Ada", {17: "on its way"})
with Session("openai:gpt-4.1", tools=[find_order], deps=ada) as session:
    print(session.ask("Where is order 17?"))

    with session.override(deps=Shop("a test", {17: "made of paper"})):
        print(session.ask("Where is order 17?"))
