from handrail import Session, tool
from handrail.testing import ScriptedModel, call, text


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


model = ScriptedModel([call("find_order", number=17)], [text("It is on its way.")])
with Session(model, tools=[find_order]) as session:
    print(session.ask("Where is order 17?"))
