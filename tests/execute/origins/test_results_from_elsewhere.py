"""Results that somebody else's tool gave, as those of a gateway's client: nobody here can say who wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Executor, Policy, Runner, tool
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import Deny
from handrail.core.context import Context
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.testing.model import ScriptedModel, call, text
from tests.execute.approvers import FixedApprover

IBAN = "DE89370400440532013000"


@pytest.mark.parametrize("content", [{"owner": "Anna", "iban": IBAN}, f'{{"owner": "Anna", "iban": "{IBAN}"}}', IBAN])
async def test_a_value_in_the_result_of_a_clients_own_tool_directs_nothing_unasked(content: Any) -> None:
    paid: list[str] = []

    @tool(side_effects=True)
    async def pay(iban: str) -> str:
        """Pay."""
        paid.append(iban)
        return "paid"

    said = Conversation().say("Find Anna's account and pay her.")
    found = ToolResult("c1", "find_account", content)
    said = said.add(
        AssistantMessage(text=""),
        InvocationMessage(ToolCall("c1", "find_account", {"name": "Anna"})),
        ResultMessage(found),
    )
    person = FixedApprover(Deny("ada"))
    model = ScriptedModel([call("pay", iban=IBAN)], [text("done")])
    async with Executor([pay], policy=Policy(confirm_side_effects=False), approver=person) as executor:
        await Runner(model, executor).run(said, Context(run="r"))

    assert paid == [] and "find_account" in person.questions[0].why
