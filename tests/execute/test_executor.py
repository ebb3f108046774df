"""One call, from what the model wrote to the one answer it gets."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from typing import Any

import pytest

from handrail import Context, Executor, Invocation, Output, Policy, Principal, ToolCall, ToolError, ToolResult, tool
from handrail.core.calls import Attachment, Problem
from handrail.core.errors import Forbidden, JournalError
from handrail.core.events import CallAsked, CallIntended, CallSettled, RunStarted
from handrail.testing.journal import MemoryJournal


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def test_a_plain_function_answers_with_its_value() -> None:
    async with Executor([add]) as executor:
        result = await executor.invoke(ToolCall("1", "add", {"a": 2, "b": 3}))

    assert (result.outcome, result.content, result.is_error) == ("ok", 5, False)


@pytest.mark.requirement("abstractllm.unparsable-arguments")
@pytest.mark.parametrize(
    "written", ['{"a": 1', '{"a": 1}{"a": 2}', '{"a": NaN}', '{"a": 1, "a": 2}', "[1]", "a=1", '{"a": 1,}']
)
async def test_arguments_that_are_not_one_json_object_never_reach_the_tool(written: str) -> None:
    @tool
    async def never(a: int) -> None:
        raise NotImplementedError

    async with Executor([never]) as executor:
        result = await executor.invoke(ToolCall("1", "never", written))

    assert result.outcome == "invalid_arguments"
    assert result.text.startswith("invalid_arguments: ")


@pytest.mark.requirement("hearthnet.validation-feedback")
async def test_invalid_arguments_name_every_wrong_field_and_what_was_expected() -> None:
    async with Executor([add]) as executor:
        result = await executor.invoke(ToolCall("1", "add", {"a": "two", "c": 3}))

    assert result.text.startswith("invalid_arguments: ")
    assert "a: expected integer" in result.text
    assert "'c'" in result.text


async def test_an_unknown_tool_is_answered_with_near_names_and_runs_nothing() -> None:
    async with Executor([add]) as executor:
        result = await executor.invoke(ToolCall("1", "ad", {"a": 1}))

    assert result.outcome == "unknown_tool"
    assert "'add'" in result.text


@pytest.mark.requirement("abstractllm.types")
async def test_arguments_arrive_as_the_types_that_the_function_declares() -> None:
    @dataclass
    class Trip:
        to: str
        on: datetime.date

    seen: list[Any] = []

    @tool
    def book(trip: Trip, seats: set[int], share: float) -> None:
        seen.extend((trip, seats, share))

    async with Executor([book]) as executor:
        result = await executor.invoke(
            ToolCall("1", "book", '{"trip": {"to": "Lisbon", "on": "2026-11-15"}, "seats": [1, 2], "share": 1}')
        )

    assert result.outcome == "ok", result.text
    assert seen == [Trip("Lisbon", datetime.date(2026, 11, 15)), {1, 2}, 1.0]
    assert type(seen[2]) is float


@pytest.mark.requirement("nrv.handler")
async def test_the_invocation_holds_name_id_input_and_what_the_caller_provides() -> None:
    seen: list[Any] = []

    async def handler(invocation: Invocation) -> dict[str, Any]:
        seen.append((invocation.tool_name, invocation.id, invocation.input, invocation.auxdata, invocation.namespace))
        return {"output": "done", "warnings": ["slow"]}

    from handrail import ToolRegistry

    tools = ToolRegistry().register({"name": "look", "input_schema": {"type": "object"}}, handler).freeze()
    async with Executor(tools) as executor:
        result = await executor.invoke(ToolCall("7", "look", {"x": 1}), Context(auxdata={"db": 1}, namespace={"n": 2}))

    assert seen == [("look", "7", {"x": 1}, {"db": 1}, {"n": 2})]
    assert (result.content, result.warnings) == ("done", ("slow",))


@pytest.mark.requirement("nrv.result")
async def test_warnings_and_attachments_reach_the_caller() -> None:
    picture = Attachment("plot.png", "image/png", b"\x89PNG")

    @tool
    async def plot() -> Output:
        return Output("plotted", ("few points",), (picture,))

    async with Executor([plot]) as executor:
        result = await executor.invoke(ToolCall("1", "plot"))

    assert (result.content, result.warnings, result.attachments) == ("plotted", ("few points",), (picture,))


@pytest.mark.requirement("nrv.result")
@pytest.mark.parametrize("how", ["raise", "return"])
async def test_a_typed_error_reaches_the_caller_with_its_code(how: str) -> None:
    @tool
    async def find(city: str) -> Any:
        error = ToolError("NOT_FOUND", f"no city {city!r}")
        if how == "raise":
            raise error
        return error

    async with Executor([find]) as executor:
        result = await executor.invoke(ToolCall("1", "find", {"city": "Atlantis"}))

    assert result.error == Problem("NOT_FOUND", "no city 'Atlantis'")
    assert result.text == "Error executing find: no city 'Atlantis'"


@pytest.mark.requirement("converser.errors")
async def test_kinds_of_errors_are_told_apart() -> None:
    @tool
    def fail(how: str) -> None:
        raise {
            "execution": ValueError("kaput"),
            "permission": PermissionError("not yours"),
            "network": ConnectionRefusedError("nobody there"),
        }[how]

    @tool(timeout=0.01)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with Executor([fail, hang]) as executor:
        results = await executor.invoke_all(
            [
                ToolCall("1", "fail", {"how": 1}),
                ToolCall("2", "fail", {"how": "execution"}),
                ToolCall("3", "hang"),
                ToolCall("4", "fail", {"how": "permission"}),
                ToolCall("5", "fail", {"how": "network"}),
            ]
        )

    assert [(result.outcome, result.error and result.error.code) for result in results] == [
        ("invalid_arguments", "invalid_arguments"),
        ("failed", "failed"),
        ("timeout", "timeout"),
        ("failed", "permission"),
        ("failed", "network"),
    ]
    assert "ValueError: kaput" in results[1].text


async def test_a_result_that_does_not_fit_the_declared_schema_is_a_failure_that_says_so() -> None:
    @tool(output_schema={"type": "object", "required": ["temperature"]})
    async def weather() -> Any:
        return {"temprature": 21}

    async with Executor([weather]) as executor:
        result = await executor.invoke(ToolCall("1", "weather"))

    assert (result.outcome, result.error and result.error.code) == ("failed", "invalid_output")
    assert "temperature" in result.text


@pytest.mark.requirement("nrv.warnings")
async def test_a_repair_is_made_only_where_asked_and_leaves_a_warning() -> None:
    call = ToolCall("1", "add", "```json\n{'a': '2', 'b': 3,}\n```")
    async with Executor([add]) as strict, Executor([add], policy=Policy(repair=True)) as lenient:
        refused = await strict.invoke(call)
        repaired = await lenient.invoke(call)

    assert refused.outcome == "invalid_arguments"
    assert (repaired.outcome, repaired.content) == ("ok", 5)
    assert repaired.warnings


@pytest.mark.requirement("hearthnet.authority")
async def test_a_call_outside_the_callers_scopes_is_forbidden_before_anything_is_asked_or_run() -> None:
    @tool(side_effects=True)
    async def pay(amount: int) -> None:
        raise NotImplementedError

    context = Context(principal=Principal("eve", scopes=("io:*", "add")))
    async with Executor([add, pay]) as executor:
        allowed = await executor.invoke(ToolCall("1", "add", {"a": 1}), context)
        forbidden = await executor.invoke(ToolCall("2", "pay", {"amount": 1}), context)

    assert (allowed.outcome, forbidden.outcome) == ("ok", "forbidden")


@pytest.mark.requirement("hearthnet.authority")
async def test_a_nested_call_has_the_callers_rights_or_fewer_never_more() -> None:
    outcomes: list[str] = []

    @tool
    async def outer(invocation: Invocation) -> None:
        for scopes in (None, ("add",), ("*",), ("outer",)):
            result = await invocation.invoke("add", {"a": 1}, scopes)
            outcomes.append(result.outcome)
        result = await invocation.invoke("secret", {}, ("*",))
        outcomes.append(result.outcome)

    @tool
    async def secret() -> None:
        raise NotImplementedError

    async with Executor([add, outer, secret]) as executor:
        await executor.invoke(ToolCall("1", "outer"), Context(scopes=("outer", "add")))

    assert outcomes == ["ok", "ok", "ok", "forbidden", "forbidden"]


@pytest.mark.requirement("nrv.model-tools")
async def test_a_model_may_call_only_the_tools_that_name_it() -> None:
    @tool(models=("big",))
    async def risky() -> str:
        return "done"

    async with Executor([risky]) as executor:
        big = await executor.invoke(ToolCall("1", "risky"), Context(model="big"))
        small = await executor.invoke(ToolCall("2", "risky"), Context(model="small"))

    assert (big.outcome, small.outcome) == ("ok", "forbidden")


async def test_tools_that_call_tools_stop_at_the_depth_limit() -> None:
    @tool
    async def dig(invocation: Invocation) -> Any:
        return await invocation.invoke("dig", {})

    async with Executor([dig], policy=Policy(max_depth=3)) as executor:
        result = await executor.invoke(ToolCall("1", "dig"))

    assert result.is_error
    assert "the limit is 3" in result.text


async def test_the_same_call_asked_twice_at_once_runs_once() -> None:
    started, go = asyncio.Event(), asyncio.Event()
    runs = 0

    @tool(side_effects=True)
    async def pay() -> int:
        nonlocal runs
        runs += 1
        started.set()
        await go.wait()
        return runs

    async with Executor([pay], policy=Policy(confirm_side_effects=False)) as executor:
        first = asyncio.create_task(executor.invoke(ToolCall("1", "pay")))
        await started.wait()
        second = asyncio.create_task(executor.invoke(ToolCall("1", "pay")))
        go.set()
        results = [await first, await second, await executor.invoke(ToolCall("1", "pay"))]

    assert runs == 1
    assert results == [results[0]] * 3


async def test_an_id_that_names_another_call_is_refused() -> None:
    async with Executor([add]) as executor:
        await executor.invoke(ToolCall("1", "add", {"a": 1}))
        result = await executor.invoke(ToolCall("1", "add", {"a": 2}))

    assert (result.outcome, result.error and result.error.code) == ("failed", "duplicate_id")


async def test_an_id_that_names_another_call_is_refused_also_where_the_call_is_not_to_run() -> None:
    async with Executor([add]) as executor:
        await executor.invoke(ToolCall("1", "add", {"a": 1}))
        result = await executor.refuse(ToolCall("1", "add", {"a": 2}), Forbidden("not now"))

    assert (result.outcome, result.error and result.error.code) == ("failed", "duplicate_id")


async def test_results_are_in_the_order_of_the_calls_whatever_order_they_end_in() -> None:
    turns = [asyncio.Event() for _ in range(4)]

    @tool
    async def wait(turn: int) -> int:
        if turn < 3:
            await turns[turn + 1].wait()
        turns[turn].set()
        return turn

    async with Executor([wait]) as executor:
        results = await executor.invoke_all([ToolCall(str(i), "wait", {"turn": i}) for i in range(4)])

    assert [result.content for result in results] == [0, 1, 2, 3]


@pytest.mark.requirement("hearthnet.parallel")
async def test_three_hundred_calls_at_once_run_as_many_at_a_time_as_the_policy_says() -> None:
    running = peak = 0

    @tool
    async def work(n: int) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    async with Executor([work], policy=Policy(concurrency=4)) as executor:
        await executor.invoke_all([ToolCall(str(i), "work", {"n": i}) for i in range(300)])

    assert peak == 4


async def test_every_call_leaves_an_intent_and_an_answer_and_a_refused_one_what_was_asked() -> None:
    journal = MemoryJournal()
    async with Executor([add], journal=journal) as executor:
        await executor.invoke(ToolCall("1", "add", {"a": 1}))
        await executor.invoke(ToolCall("2", "add", '{"b": 2}'))

    started, intended, settled, asked, refused, _ = journal.events
    assert isinstance(started, RunStarted)
    assert started.tools == executor.tools.digest
    assert isinstance(intended, CallIntended)
    assert intended.arguments == {"a": 1}
    assert isinstance(settled, CallSettled)
    assert isinstance(settled.result, ToolResult)
    assert (settled.call_id, settled.outcome, settled.ran, settled.result.content) == ("1", "ok", True, 2)
    assert isinstance(asked, CallAsked)
    assert (asked.call_id, asked.arguments) == ("2", '{"b": 2}')
    assert isinstance(refused, CallSettled)
    assert (refused.call_id, refused.outcome, refused.ran) == ("2", "invalid_arguments", False)


async def test_when_the_intent_cannot_be_written_the_effect_does_not_happen() -> None:
    @tool(side_effects=True)
    async def pay() -> None:
        raise NotImplementedError

    journal = MemoryJournal()
    async with Executor([pay], journal=journal, policy=Policy(confirm_side_effects=False)) as executor:
        await executor.runs.record_offer(Context(), ("pay",))
        journal.fail_at = len(journal.events)
        with pytest.raises(JournalError):
            await executor.invoke(ToolCall("1", "pay"))
        journal.fail_at = None


async def test_a_secret_argument_reaches_the_tool_and_not_the_record() -> None:
    from handrail import Secret

    seen: list[str] = []

    @tool
    async def login(user: str, password: Secret) -> str:
        seen.append(password)
        return "welcome"

    journal = MemoryJournal()
    async with Executor([login], journal=journal) as executor:
        await executor.invoke(ToolCall("1", "login", {"user": "ada", "password": "correct horse"}))
        await executor.invoke(ToolCall("2", "login", {"user": 1, "password": "correct horse"}))
        await executor.invoke(ToolCall("3", "login", '{"user": 1, "password": "correct horse"'))

    assert seen == ["correct horse"]
    assert "correct horse" not in repr(journal.events)


@pytest.mark.requirement("nrv.no-retries")
async def test_a_failing_tool_is_not_tried_again_unless_a_policy_says_so() -> None:
    from handrail.testing.clock import FixedClock
    from handrail.tools.tool import Retry

    tries: list[str] = []

    @tool
    async def flaky() -> str:
        tries.append("read")
        raise ToolError("not yet")

    @tool(side_effects=True)
    async def pay() -> str:
        tries.append("write")
        raise ToolError("not yet")

    clock = FixedClock()
    policy = Policy(confirm_side_effects=False)
    async with Executor([flaky], policy=policy) as plain:
        await plain.invoke(ToolCall("1", "flaky"))
    assert tries == ["read"]

    retrying = Policy(confirm_side_effects=False, retry=Retry(attempts=3, first_delay=1, factor=2))
    async with Executor([flaky, pay], policy=retrying, clock=clock) as executor:
        result = await executor.invoke(ToolCall("1", "flaky"))
        await executor.invoke(ToolCall("2", "pay"))

    assert result.outcome == "failed"
    assert tries == ["read"] * 4 + ["write"]
    assert clock.slept == [1, 2]


async def test_a_deadline_that_has_passed_starts_nothing() -> None:
    @tool
    async def never() -> None:
        raise NotImplementedError

    async with Executor([never]) as executor:
        result = await executor.invoke(ToolCall("1", "never"), Context(deadline=0.0))

    assert result.outcome == "timeout"


async def test_a_tool_that_calls_itself_runs_in_its_own_place() -> None:
    @tool(concurrency=1, resource=lambda arguments: "the one file")
    async def count(down: int, invocation: Invocation) -> int:
        if not down:
            return 0
        below = await invocation.invoke("count", {"down": down - 1})
        assert below.outcome == "ok", below.text
        return int(below.content) + 1

    async with Executor([count], policy=Policy(concurrency=1)) as executor:
        result = await executor.invoke(ToolCall("1", "count", {"down": 3}))

    assert result.content == 3


async def test_the_defaults_of_a_schema_are_filled_in_where_they_fit_it() -> None:
    seen: list[Any] = []

    async def read(context: Invocation, arguments: dict[str, Any]) -> None:
        seen.append(arguments)

    def schema(default: object) -> dict[str, Any]:
        return {"type": "object", "properties": {"encoding": {"type": "string", "default": default}}}

    fitting = tool(name="fitting", schema=schema("utf-8"))(read)
    unfit = tool(name="unfit", schema=schema(None))(read)
    async with Executor([fitting, unfit]) as executor:
        await executor.invoke(ToolCall("1", "fitting"))
        await executor.invoke(ToolCall("2", "unfit"))

    assert seen == [{"encoding": "utf-8"}, {}]


async def test_a_handler_that_changes_its_arguments_does_not_change_the_call() -> None:
    @tool
    async def drain(items: list[int]) -> int:
        items.clear()
        return len(items)

    asked = ToolCall("1", "drain", {"items": [1, 2]})
    async with Executor([drain]) as executor:
        first = await executor.invoke(asked)
        again = await executor.invoke(ToolCall("1", "drain", {"items": [1, 2]}))

    assert asked.arguments == {"items": [1, 2]}
    assert (first.outcome, again) == ("ok", first)
