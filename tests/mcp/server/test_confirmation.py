"""A side effect that a client calls for is confirmed by the person at the client, in the way of its era."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from handrail.core.confirmation import Confirmation, Edit
from handrail.core.context import Principal
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested
from handrail.core.invocation import Invocation
from handrail.mcp.server.build import build_mcp_server
from handrail.mcp.server.results import OUTCOME_KEY
from handrail.tools.tool import Tool, tool
from tests.mcp.server.server_setup import ERAS, LEGACY, MODERN, ServerSetup, scene, text

era = pytest.mark.parametrize("era", ERAS)
Content = dict[str, Any]


class Person:
    """At the client: gives the same answer to every form, and keeps the forms."""

    def __init__(self, action: Any, content: Content | None = None) -> None:
        self.action = action
        self.content = content
        self.forms: list[types.ElicitRequestFormParams] = []

    async def __call__(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.forms.append(params)
        return types.ElicitResult(action=self.action, content=self.content)


class Drawer:
    """A place that a tool changes."""

    def __init__(self) -> None:
        self.things: list[str] = []

        @tool(side_effects=True)
        def put(thing: str) -> str:
            """Put a thing into the drawer."""
            self.things.append(thing)
            return f"{len(self.things)} things"

        self.put = put

    def scene(self, **options: Any) -> ServerSetup:
        return scene(self.put, **options)


async def first_round(client: Client, thing: str = "pen") -> types.InputRequiredResult:
    result = await client.session.call_tool("put", {"thing": thing}, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


async def next_round(client: Client, state: str | None, answer: Any = None, thing: str = "pen") -> Any:
    return await client.session.call_tool(
        "put",
        {"thing": thing},
        input_responses=None if answer is None else {"confirm": types.ElicitResult(**answer)},
        request_state=state,
        allow_input_required=True,
    )


YES = {"action": "accept", "content": {"allow": True}}


@era
@pytest.mark.requirement("converser.mcp-server")
async def test_a_side_effect_runs_once_the_person_at_the_client_approves(era: str) -> None:
    drawer, person = Drawer(), Person("accept", {"allow": True})
    served = drawer.scene()
    async with served.client(era, elicitation_callback=person) as client:
        result = await client.call_tool("put", {"thing": "pen"})
    assert (result.is_error, text(result), drawer.things) == (False, "1 things", ["pen"])
    assert len(person.forms) == 1
    asked = person.forms[0].message
    assert "'put'" in asked and "Put a thing" in asked and '"thing": "pen"' in asked
    assert [event.decision for event in served.recorded(ConfirmationAnswered)] == ["allow"]
    assert "MCP client" in served.recorded(ConfirmationAnswered)[0].by
    assert served.recorded(CallIntended)[0].grant == served.recorded(ConfirmationRequested)[0].request


@era
@pytest.mark.parametrize(
    ("action", "content"),
    [("decline", None), ("accept", {"allow": False}), ("accept", {"allow": "no"}), ("accept", {"allow": 1})],
)
async def test_what_is_not_plainly_yes_is_denied(era: str, action: str, content: Content | None) -> None:
    drawer = Drawer()
    async with drawer.scene().client(era, elicitation_callback=Person(action, content)) as client:
        result = await client.call_tool("put", {"thing": "pen"})
    assert result.is_error and result.meta is not None and result.meta[OUTCOME_KEY] == "denied"
    assert drawer.things == []


@era
async def test_a_form_that_is_dismissed_leaves_the_question_open(era: str) -> None:
    drawer, person = Drawer(), Person("cancel")
    served = drawer.scene()
    async with served.client(era, elicitation_callback=person) as client:
        result = await client.call_tool("put", {"thing": "pen"})
        assert result.is_error and result.meta is not None and result.meta[OUTCOME_KEY] == "needs_confirmation"
        person.action = "accept"
        again = await client.call_tool("put", {"thing": "pen"})
    assert not again.is_error and drawer.things == ["pen"]
    assert len(served.recorded(ConfirmationRequested)) == 1, "it is the same question"


@era
async def test_a_client_that_cannot_ask_is_told_how_the_call_can_be_allowed(era: str) -> None:
    drawer = Drawer()
    served = drawer.scene()
    async with served.client(era) as client:
        result = await client.call_tool("put", {"thing": "pen"})
        request = served.recorded(ConfirmationRequested)[0]
        assert result.is_error and f"handrail confirm allow {request.request}" in text(result)
        still = await client.call_tool("put", {"thing": "pen"})
        assert still.is_error and drawer.things == []
        await served.executor.answer(request.run, request.request, allow=True, by="ada")
        done = await client.call_tool("put", {"thing": "pen"})
        anew = await client.call_tool("put", {"thing": "pen"})
    assert not done.is_error and drawer.things == ["pen"]
    assert anew.is_error, "a word is good for one call"


@era
async def test_a_standing_rule_spares_the_question(era: str) -> None:
    drawer, person = Drawer(), Person("decline")
    async with drawer.scene(rules=("allow put thing=pen",)).client(era, elicitation_callback=person) as client:
        allowed = await client.call_tool("put", {"thing": "pen"})
        asked = await client.call_tool("put", {"thing": "bomb"})
    assert (allowed.is_error, asked.is_error, drawer.things, len(person.forms)) == (False, True, ["pen"], 1)


async def test_a_round_that_is_repeated_runs_nothing_twice() -> None:
    drawer = Drawer()
    async with drawer.scene().client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        one = await next_round(client, asked.request_state, YES)
        two = await next_round(client, asked.request_state, YES)
    assert text(one) == text(two) == "1 things" and drawer.things == ["pen"]


async def test_two_calls_alike_that_both_wait_are_two_calls() -> None:
    drawer = Drawer()
    async with drawer.scene().client(MODERN, elicitation_callback=Person("accept")) as client:
        first, second = await first_round(client), await first_round(client)
        await next_round(client, first.request_state, YES)
        await next_round(client, second.request_state, YES)
    assert drawer.things == ["pen", "pen"]


async def test_a_round_without_the_answer_asks_the_same_again() -> None:
    drawer = Drawer()
    served = drawer.scene()
    async with served.client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        again = await next_round(client, asked.request_state)
        assert isinstance(again, types.InputRequiredResult) and again.input_requests is not None
        assert list(again.input_requests) == ["confirm"]
        assert not (await next_round(client, again.request_state, YES)).is_error
    assert len(served.recorded(ConfirmationRequested)) == 1


def _flipped(state: str) -> str:
    middle = len(state) // 2
    return state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]


@pytest.mark.parametrize("change", [_flipped, lambda state: state[:-4], lambda state: "", lambda state: "v1.AAAA"])
async def test_a_state_that_was_changed_is_refused(change: Callable[[str], str]) -> None:
    drawer = Drawer()
    async with drawer.scene().client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError) as caught:
            await next_round(client, change(asked.request_state or ""), YES)
    assert caught.value.code == types.INVALID_PARAMS
    assert drawer.things == []


async def test_a_state_is_good_for_its_own_arguments_only() -> None:
    drawer = Drawer()
    async with drawer.scene().client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError):
            await next_round(client, asked.request_state, YES, thing="bomb")
    assert drawer.things == []


async def test_a_state_is_good_for_its_own_principal_only() -> None:
    drawer, who = Drawer(), ["ada"]
    served = drawer.scene(principal=lambda caller: Principal(who[-1]))
    async with served.client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        who.append("eve")
        with pytest.raises(MCPError):
            await next_round(client, asked.request_state, YES)
    assert drawer.things == []


async def test_a_state_that_is_too_old_is_refused() -> None:
    drawer = Drawer()
    server = build_mcp_server(drawer.scene().served, state_life=1e-9)
    async with Client(server, mode=MODERN, cache=None, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError):
            await next_round(client, asked.request_state, YES)
    assert drawer.things == []


async def test_an_approval_is_for_the_tool_as_the_person_saw_it() -> None:
    drawer, sold = Drawer(), Drawer()
    served = drawer.scene()
    async with served.client(MODERN, elicitation_callback=Person("accept")) as client:
        asked = await first_round(client)
        served.renew(sold.put.changed(description="Put a thing into the drawer, and sell it."))
        assert not (await next_round(client, asked.request_state, YES)).is_error
        assert (drawer.things, sold.things) == (["pen"], [])
        anew = await first_round(client)
        assert anew.input_requests is not None
        question = anew.input_requests["confirm"]
        assert isinstance(question, types.ElicitRequest) and "and sell it" in question.params.message


async def test_a_tool_called_by_a_tool_is_asked_about_in_mid_call() -> None:
    drawer, person = Drawer(), Person("accept")

    async def tidy(invocation: Invocation) -> str:
        """Put everything away."""
        result = await invocation.invoke("put", {"thing": invocation.arguments.get("thing", "cup")})
        return result.outcome

    tidying = Tool.from_function(tidy, style="invocation", schema={"type": "object"}, side_effects=True)
    served = scene(drawer.put, tidying, rules=("allow tidy",))
    async with served.client(LEGACY, elicitation_callback=person) as client:
        assert text(await client.call_tool("tidy", {})) == "ok"
    assert drawer.things == ["cup"] and len(person.forms) == 1
    async with served.client(MODERN, elicitation_callback=person) as client:
        assert text(await client.call_tool("tidy", {"thing": "mug"})) == "needs_confirmation"
    assert drawer.things == ["cup"]


async def test_values_that_a_tool_asks_for_are_filled_in_by_the_person() -> None:
    """As when a tool of ours is one of another MCP server, and that one asks in mid-call."""
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    served: ServerSetup

    async def order(invocation: Invocation) -> str:
        """Order a shirt."""
        question = Confirmation(
            request="r", run="", call_id=invocation.id, tool="order", description="Which size?", arguments={}, binds="",
            form=form,
        )  # fmt: skip
        decision = await served.asker.decide(question)
        assert isinstance(decision, Edit)
        return f"size {decision.arguments['size']}"

    served = scene(Tool.from_function(order, style="invocation", schema={"type": "object"}))
    person = Person("accept", {"size": 42})
    async with served.client(LEGACY, elicitation_callback=person) as client:
        assert text(await client.call_tool("order", {})) == "size 42"
    assert person.forms[0].message == "Which size?"
    assert person.forms[0].requested_schema == form


async def test_a_question_outside_of_any_call_is_deferred() -> None:
    drawer = Drawer()
    served = drawer.scene()
    from handrail.core.calls import ToolCall

    result = await served.executor.invoke(ToolCall("c1", "put", {"thing": "pen"}))
    assert result.outcome == "needs_confirmation" and drawer.things == []


@era
async def test_a_form_shows_short_arguments_first_and_every_one_in_full(era: str) -> None:
    ran: list[str] = []

    @tool(side_effects=True)
    def send(body: str, to: str) -> str:
        """Send something."""
        ran.append(body)
        return "sent"

    body, person = "b" * 9_000 + " the end", Person("accept", {"allow": True})
    async with scene(send).client(era, elicitation_callback=person) as client:
        await client.call_tool("send", {"body": body, "to": "eve"})

    (form,) = person.forms
    assert form.message.index('"to": "eve"') < form.message.index('"body": "bbb')
    assert f'"body": "{body}"' in form.message
    assert ran == [body]


@era
async def test_a_call_that_is_too_long_for_a_form_cannot_be_allowed_by_one_and_says_how_to_go_on(era: str) -> None:
    drawer, person = Drawer(), Person("accept", {"allow": True})
    served = drawer.scene()
    async with served.client(era, elicitation_callback=person) as client:
        result = await client.call_tool("put", {"thing": "x" * 30_000})

    assert (person.forms, drawer.things) == ([], [])
    (asked,) = served.recorded(ConfirmationRequested)
    assert f"handrail confirm allow {asked.request}" in text(result)


@pytest.mark.parametrize("thing", ["\x1b[2J", "\u202egpj.exe", "a\u200bb", "p\u0430ypal", "\u2028x"], ids=ascii)
@era
async def test_a_form_writes_out_every_letter_that_could_deceive(era: str, thing: str) -> None:
    person = Person("decline")
    async with Drawer().scene().client(era, elicitation_callback=person) as client:
        await client.call_tool("put", {"thing": thing})

    (form,) = person.forms
    assert form.message.isascii()
    assert json.dumps(thing) in form.message


@era
async def test_what_is_nested_in_an_argument_does_not_look_like_an_argument(era: str) -> None:
    person = Person("decline")

    @tool(side_effects=True)
    def run(command: str, options: dict[str, Any]) -> str:
        """Run something."""
        return "done"

    async with scene(run).client(era, elicitation_callback=person) as client:
        await client.call_tool("run", {"command": "rm -rf ~ " + "x" * 100, "options": {"command": "ls"}})

    (form,) = person.forms
    arguments = [each for each in form.message.split("\n") if each.startswith('  "')]
    assert [each.partition(":")[0] for each in arguments] == ['  "options"', '  "command"']
    assert '\n    "command": "ls"\n' in form.message
