"""A session whose model calls tools from code that it writes."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Context, Executor, Policy, Principal, Secret, Session, ToolCall, tool
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny
from handrail.core.errors import UsageError
from handrail.core.events import CallSettled, Event
from handrail.core.messages import SupervisorMessage
from handrail.run.code.code_mode import OPEN, CodeMode, CodeSettings
from handrail.sandbox.port import Kind, ReplLimits
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import Tool


@tool
def read_order(number: int) -> dict[str, int]:
    """Read an order.

    Args:
        number: As it stands on the bill.
    """
    return {"number": number, "cents": number * 100}


@tool
def long_text(characters: int) -> str:
    """A text of that length."""
    return "x" * characters


def payer(paid: list[int]) -> Tool:
    @tool(side_effects=True)
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return f"paid {cents}"

    return pay


class Limit:
    """Approves what is small."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.asked.append((question.tool, question.arguments))
        return Allow("ada") if question.arguments["cents"] < 1000 else Deny("ada", "too much")


def scripted(*code: str) -> ScriptedModel:
    return ScriptedModel(*([call("run_code", code=each)] for each in code), [text("Done.")])


def session(*code: str, **options: Any) -> Session:
    return Session(scripted(*code), **{"tools": [read_order, long_text], "code": True, **options})


def printed(*code: str, **options: Any) -> list[str]:
    """What the model reads of each piece of code."""
    with session(*code, **options) as there:
        return [result.text for result in there.ask("Go.").results]


def test_fifty_calls_cost_one_turn_and_each_is_on_record() -> None:
    model = scripted("print(sum(read_order(id)['cents'] for id in range(1, 51)))")
    events: list[Event] = []
    with Session(model, tools=[read_order], code=True) as there:
        reply = there.ask("What did the first fifty orders cost?", on_event=events.append)
        assert there.proof.verify().ok

    assert [result.content for result in reply.results] == ["127500\n"]
    assert len(model.requests) == 2
    settled = [event.tool for event in events if isinstance(event, CallSettled)]
    assert settled == ["read_order"] * 50 + ["run_code"]


def test_the_model_is_shown_signatures_and_one_tool() -> None:
    model = scripted("print(1)")
    with Session(model, system_prompt="Be brief.", tools=[read_order, long_text], code=True) as there:
        there.ask("Go.")

    (request, _) = model.requests
    assert [offer.name for offer in request.tools] == ["run_code"]
    told = [message.text for message in request.messages if isinstance(message, SupervisorMessage)]
    assert told[0] == "Be brief."
    assert (
        "def read_order(number: int) -> dict: ...\n    # Read an order.\n    # number: As it stands on the bill."
        in told[1]
    )
    assert len(told) == 2


def test_a_second_prompt_is_not_told_the_functions_again() -> None:
    model = ScriptedModel([text("One.")], [text("Two.")])
    with Session(model, tools=[read_order], code=True) as there:
        there.ask("Go.")
        there.ask("Go on.")

    assert sum(isinstance(each, SupervisorMessage) for each in there.conversation.messages) == 1


def test_variables_stay_from_one_call_to_the_next() -> None:
    assert printed("found = read_order(7)", "print(found['cents'])")[1] == "700\n"


def test_code_reads_results_whole_and_only_what_it_prints_is_cut() -> None:
    (whole, cut) = printed("print(len(long_text(50_000)))", "print(long_text(50_000))")

    assert whole == "50000\n"
    assert len(cut) <= Policy().max_output


def test_an_error_in_the_code_comes_back_with_its_line_and_what_was_printed() -> None:
    (words,) = printed("a = 1\nprint('before')\nprint(a / 0)")

    assert "line 3" in words and "ZeroDivisionError" in words
    assert "before" in words


@pytest.mark.parametrize("sandbox", ["monty", "process"])
def test_a_traceback_has_the_models_lines_and_none_of_ours(sandbox: Kind) -> None:
    (words,) = printed("def twice(n):\n    return read_order(n) * 2\n\ntwice('x')", code=CodeSettings(sandbox=sandbox))

    assert "line 2, in twice" in words and "line 4" in words
    assert "_call" not in words and "_host" not in words


def test_a_tool_that_takes_a_secret_is_called_by_the_model_itself() -> None:
    @tool
    def login(user: str, password: Secret) -> str:
        """Sign in."""
        return f"{user} is signed in"

    model = scripted("login('ada', 'hunter2')")
    with Session(model, tools=[read_order, login], code=True) as there:
        (result,) = there.ask("Go.").results

    assert [offer.name for offer in model.requests[0].tools] == ["login", "run_code"]
    assert "NameError" in result.text


def test_wrong_arguments_are_an_exception_that_says_what_is_wrong() -> None:
    code = "try:\n    read_order('seven')\nexcept RuntimeError as error:\n    print('told:', error)"
    (words,) = printed(code)

    assert words.startswith("told:") and "integer" in words


def test_side_effects_of_code_are_approved_or_denied_one_by_one() -> None:
    paid: list[int] = []
    approver = Limit()
    tries = "    try:\n        print(pay(cents))\n    except RuntimeError as error:\n        print(error)"
    code = f"for cents in (100, 5000, 200):\n{tries}"
    (words,) = printed(code, tools=[payer(paid)], approver=approver)

    assert paid == [100, 200]
    assert approver.asked == [("pay", {"cents": 100}), ("pay", {"cents": 5000}), ("pay", {"cents": 200})]
    assert "too much" in words


def test_without_an_approver_the_code_is_told_that_a_person_must_approve() -> None:
    paid: list[int] = []
    (words,) = printed("pay(100)", tools=[payer(paid)])

    assert paid == []
    assert "waits for a person" in words


def test_calls_that_do_not_depend_on_each_other_run_at_once_and_keep_their_order() -> None:
    (words,) = printed(
        "print([each['cents'] for each in call_all([('read_order', {'number': n}) for n in (3, 1, 2)])])"
    )

    assert words == "[300, 100, 200]\n"


@pytest.mark.parametrize("asked", ["3", "[3]", "[('nothing', {})]", "[('read_order', 3)]", "[('read_order',)]"])
def test_calls_at_once_that_are_no_calls_are_exceptions_in_the_code(asked: str) -> None:
    (words,) = printed(f"try:\n    call_all({asked})\nexcept (TypeError, NameError) as error:\n    print('told')")

    assert words == "told\n"


def test_scopes_of_the_caller_hold_for_code() -> None:
    context = Context(principal=Principal("ada", scopes=("run_code", "long_text")))
    (words,) = printed("print(len(long_text(3)))\nread_order(1)", context=context)

    assert "It had printed:\n3" in words and "outside what 'ada' may call" in words


def test_tools_that_are_named_direct_are_offered_and_not_callable_from_code() -> None:
    model = ScriptedModel([call("read_order", number=2), call("run_code", code="read_order(2)")], [text("Done.")])
    with Session(model, tools=[read_order, long_text], code=CodeSettings(direct=("read_*",))) as there:
        direct, code = there.ask("Go.").results

    assert [offer.name for offer in model.requests[0].tools] == ["read_order", "run_code"]
    assert direct.content == {"number": 2, "cents": 200}
    assert "NameError" in code.text


def test_a_fork_has_an_interpreter_of_its_own() -> None:
    with session("a = 1") as there:
        there.ask("Go.")
        with there.fork() as other:
            assert [type(each) for each in other.conversation.messages] == [
                type(each) for each in there.conversation.messages
            ]


def test_names_that_python_has_get_an_underscore_and_clashes_are_refused() -> None:
    @tool(name="open")
    def opens(door: str) -> str:
        """Open a door."""
        return f"{door} is open"

    assert printed("print(open_('A'))", tools=[opens]) == ["A is open\n"]
    with pytest.raises(UsageError, match="rename one"):
        printed("1", tools=[tool(name="a.b")(lambda: 1), tool(name="a-b")(lambda: 1)])
    with pytest.raises(UsageError, match="'run_code'"):
        printed("1", tools=[tool(name="run_code")(lambda: 1)])


def test_a_tool_that_has_the_name_of_a_function_of_another_repl_is_the_tool() -> None:
    @tool
    def show_vars(of: str) -> str:
        """Show the variables of a service."""
        return f"those of {of}"

    assert printed("print(show_vars('web'))", tools=[show_vars]) == ["those of web\n"]


@pytest.mark.parametrize("code", ["docker", 1, "Service"])
def test_what_is_no_way_to_run_code_is_refused_at_once(code: Any) -> None:
    with pytest.raises(UsageError, match="code is True"):
        Session(ScriptedModel(), code=code)


def test_a_model_that_writes_no_code_is_refused() -> None:
    model = ScriptedModel()
    model.writes_code = False  # type: ignore[attr-defined]

    with pytest.raises(UsageError, match="too small to write code"):
        Session(model, code=True)


def test_code_that_runs_for_ever_ends_and_the_variables_before_it_are_there() -> None:
    limits = ReplLimits(cell_seconds=0.5)
    _, second, third = printed(
        "a = read_order(4)['cents']", "while True:\n    pass", "print(a)", code=CodeSettings(limits=limits)
    )

    assert "out of time" in second
    assert third.endswith("400\n")


async def test_many_runs_share_few_interpreters_and_each_keeps_its_variables() -> None:
    async with Executor([read_order]) as executor, CodeMode(executor) as mode:

        async def run(number: int, code: str) -> str:
            call = ToolCall(f"{number}-{len(code)}", "run_code", {"code": code})
            return (await executor.invoke(call, Context(run=f"run-{number}"))).text

        for number in range(OPEN + 2):
            await run(number, f"mine = read_order({number})['cents']")

        assert mode.interpreters == OPEN
        assert (await run(0, "print(mine)"), await run(OPEN, "print(mine)")) == ("0\n", f"{OPEN * 100}\n")


async def test_two_pieces_of_code_of_one_reply_run_one_after_the_other() -> None:
    first, second = "a = [read_order(n)['cents'] for n in range(3)]", "print(a)"
    model = ScriptedModel([call("run_code", code=first), call("run_code", code=second)], [text("Done.")])
    async with Session(model, tools=[read_order], code=True) as there:
        reply = await there.ask_async("Go.")

    assert reply.results[1].content == "[0, 100, 200]\n"


def test_of_many_tools_the_model_is_told_names_and_code_finds_signatures() -> None:
    def made(at: int) -> Tool:
        return Tool.from_function(lambda: at, name=f"fact_{at}", description=f"Tells fact {at}.", side_effects=False)

    many = [made(at) for at in range(70)]
    code = "print(find_functions('read an order'))", "print(find_functions('fact_3 fact_69'))", "print(read_order(2))"
    model = scripted(*code)
    with Session(model, tools=[read_order, *many], code=True) as there:
        by_words, by_names, used = (result.text for result in there.ask("Go.").results)

    (told,) = [each.text for each in model.requests[0].messages if isinstance(each, SupervisorMessage)]
    assert "fact_69" in told and "def read_order" not in told
    assert by_words.startswith("def read_order(number: int) -> dict")
    assert "def fact_3()" in by_names and "def fact_69()" in by_names
    assert "200" in used
