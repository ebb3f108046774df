"""Faults of the tool side by number, 11 to 17: tools that hang, die, flood, and write what nobody can read.

The numbers are those of the fault list that the project was built against; 18 to 20
are in `test_tool_trust`. Threads, processes, files and terminals are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from handrail import Attachment, Conversation, Executor, Output, Policy, Runner, Tool, ToolCall, ToolDefinition, tool
from handrail.core.calls import ToolResult
from handrail.core.errors import InvalidDefinition, InvalidSchema, UsageError
from handrail.core.events import CallAmended, Event
from handrail.core.messages import ResultMessage
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.execute.spill import read_output_tool
from handrail.journal.journal import SqliteJournal
from handrail.sessions.store.spill import DirectorySpill
from handrail.testing.model import ScriptedModel, call, text
from tests.execute.isolation import process_tools
from tests.execute.isolation.test_process_pool import Pipe, Watched

ENDINGS = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError")
"""What ends a program, or a task, when it is not caught."""


@asynccontextmanager
async def recorded(folder: Path, *tools: Any, **options: Any) -> AsyncIterator[Executor]:
    """An executor with a journal on disk, where everything that a tool says must find room."""
    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        Executor(tools, journal=journal, **options) as executor,
    ):
        yield executor


async def results_of(executor: Executor, *calls: Any) -> list[ToolResult]:
    """What a model is told when it makes these calls in one reply and then stops."""
    model = ScriptedModel(list(calls), [text("done")])
    conversation = await Runner(model, executor).run(Conversation().say("go"))
    assert conversation.text == "done"
    return [message.result for message in conversation.messages if isinstance(message, ResultMessage)]


# 11: a plain function hangs.


class Hanging:
    """A tool that goes on until the test lets it end."""

    def __init__(self, timeout: float = 0.05) -> None:
        self.may_end = threading.Event()

        @tool(timeout=timeout, share=False)
        def hang(n: int = 0) -> str:
            self.may_end.wait(30)
            return f"late {n}"

        self.tool: Tool = hang


async def test_case_11_a_hanging_thread_is_answered_on_time_and_said_to_go_on(tmp_path: Path) -> None:
    hanging, amended = Hanging(), asyncio.Event()
    later: list[CallAmended] = []

    async def note(event: Event) -> None:
        if isinstance(event, CallAmended):
            later.append(event)
            amended.set()

    async with recorded(tmp_path, hanging.tool) as executor:
        result = await executor.invoke(ToolCall("1", "hang"), emit=note)
        assert (result.outcome, result.still_running, later) == ("timeout", True, [])
        assert "still running; it may yet take effect" in result.text
        hanging.may_end.set()
        async with asyncio.timeout(20):
            await amended.wait()

    assert [event.result and event.result.content for event in later] == ["late 0"]


async def test_case_11_the_model_goes_on_while_a_thread_hangs() -> None:
    hanging = Hanging()
    async with Executor([hanging.tool, process_tools.add]) as executor:
        hung, added = await results_of(executor, call("hang"), call("add", a=1))
        hanging.may_end.set()

    assert (hung.outcome, added.content) == ("timeout", 2)


async def test_case_11_threads_that_hang_are_capped_and_other_places_still_work() -> None:
    hanging = Hanging()
    isolated = process_tools.add.changed(isolation="process")
    async with Executor([hanging.tool, isolated], policy=Policy(max_left_running=2)) as executor:
        for n in range(2):
            assert (await executor.invoke(ToolCall(f"{n}", "hang", {"n": n}))).still_running
        refused = await executor.invoke(ToolCall("3", "hang", {"n": 3}))
        elsewhere = await executor.invoke(ToolCall("4", "add", {"a": 1}))
        hanging.may_end.set()

    assert (refused.outcome, refused.still_running, elsewhere.content) == ("limit", False, 2)


@pytest.mark.parametrize("stubborn", ["wait_for_ever", "ignore_sigterm", "hold_the_interpreter"])
async def test_case_11_a_hanging_process_is_answered_and_killed(tmp_path: Path, stubborn: str) -> None:
    pipe = Pipe(tmp_path / "pipe")
    hanging: Tool = getattr(process_tools, stubborn)
    add = process_tools.add.changed(isolation="process")
    async with Executor([hanging.changed(isolation="process", timeout=2.0), add]) as executor:
        await executor.invoke(ToolCall("0", "add", {"a": 1}))  # the time to start an interpreter is of no matter here
        asked = asyncio.create_task(executor.invoke(ToolCall("1", hanging.name, {"path": pipe.path})))
        pid, _ = await pipe.pids()
        with Watched(pid) as worker:
            result = await asked
            assert worker.has_ended
    pipe.close()

    assert (result.outcome, result.still_running) == ("timeout", False)
    assert "was stopped" in result.text


# 12: a tool raises what ends programs.


def raising(where: str) -> Tool:
    async def in_loop(kind: str) -> None:
        process_tools.raise_that(kind)

    match where:
        case "loop":
            return tool(in_loop, name="raises")
        case "thread":
            return process_tools.raise_that.changed(name="raises")
    return process_tools.raise_that.changed(name="raises", isolation="process")


@pytest.mark.parametrize("where", ["loop", "thread", "process"])
async def test_case_12_what_ends_programs_is_a_failure_of_the_tool_and_the_run_goes_on(where: str) -> None:
    async with Executor([raising(where), process_tools.add]) as executor:
        *failed, after = await results_of(executor, *(call("raises", kind=kind) for kind in ENDINGS), call("add", a=1))
        again = await executor.invoke(ToolCall("again", "raises", {"kind": "SystemExit"}))

    assert [result.outcome for result in failed] == ["failed"] * len(ENDINGS)
    assert all(kind in result.text for kind, result in zip(ENDINGS, failed, strict=True))
    assert (after.content, again.outcome) == (2, "failed")


# 13: a worker dies.


@pytest.mark.parametrize(
    ("fatal", "arguments", "words"),
    [("segfault", {}, "SIGSEGV"), ("leave", {"code": 3}, "exit code 3"), ("die_by", {"number": 9}, "SIGKILL")],
)
async def test_case_13_a_dead_worker_is_an_answer_and_its_neighbours_live(
    tmp_path: Path, fatal: str, arguments: dict[str, Any], words: str
) -> None:
    pipe = Pipe(tmp_path / "pipe")
    names = (fatal, "wait_for_ever", "add", "whereabouts")
    tools = [getattr(process_tools, name).changed(isolation="process") for name in names]
    async with Executor(tools) as executor:
        neighbour = asyncio.create_task(executor.invoke(ToolCall("1", "wait_for_ever", {"path": pipe.path})))
        pid, _ = await pipe.pids()
        with Watched(pid) as other:
            (lost,) = await results_of(executor, call(fatal, **arguments))
            assert not other.has_ended
            refilled = await results_of(executor, *(call("add", a=n) for n in range(4)))
            neighbour.cancel()
            await asyncio.wait({neighbour})
    pipe.close()

    assert (lost.outcome, lost.error and lost.error.code) == ("failed", "worker_lost")
    assert words in lost.text
    assert [result.content for result in refilled] == [1, 2, 3, 4]


async def test_case_13_a_worker_that_takes_too_much_memory_is_stopped_by_its_limit() -> None:
    tools = [process_tools.allocate.changed(isolation="process"), process_tools.add.changed(isolation="process")]
    policy = Policy(process=ProcessLimits(memory_bytes=200 * 2**20))
    async with Executor(tools, policy=policy) as executor:
        much, after = await results_of(executor, call("allocate", mebibytes=400), call("add", a=1))

    assert (much.outcome, much.error and much.error.code) == ("failed", "worker_lost")
    assert "limit of 200 MiB of memory" in much.text
    assert after.content == 2


# 14: thirty megabytes.

HUGE = 30_000_000


@pytest.mark.parametrize("where", ["loop", "process"])
async def test_case_14_thirty_megabytes_are_cut_kept_on_disk_and_read_back(tmp_path: Path, where: str) -> None:
    async def dump() -> str:
        return process_tools_text()

    spill = DirectorySpill(tmp_path / "outputs")
    give = tool(dump) if where == "loop" else tool(process_tools_text, name="dump", isolation="process")
    async with recorded(tmp_path, give, read_output_tool(spill), spill=spill) as executor:
        (result,) = await results_of(executor, call("dump"))
        assert result.spilled is not None
        start = HUGE - 30
        piece = await executor.invoke(ToolCall("2", "read_output", {"id": result.spilled.id, "start": start}))

    assert len(result.text) <= 10_000
    assert result.spilled.characters == HUGE
    assert process_tools_text()[start:] in piece.text
    assert (tmp_path / "journal.db").stat().st_size < 1_000_000


def process_tools_text() -> str:
    """Thirty million characters in numbered lines."""
    return "".join(f"{n:014}\n" for n in range(HUGE // 15))


async def test_case_14_after_a_huge_result_its_memory_is_given_back(tmp_path: Path) -> None:
    @tool(share=False)
    async def dump(n: int) -> str:
        return "x" * HUGE

    spill = DirectorySpill(tmp_path / "outputs", most_bytes=2 * HUGE)
    async with recorded(tmp_path, dump, spill=spill) as executor:
        await executor.invoke(ToolCall("warm", "dump", {"n": -1}))
        tracemalloc.start()
        for n in range(4):
            await executor.invoke(ToolCall(f"{n}", "dump", {"n": n}))
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert held < 1.5 * HUGE  # the thread that wrote the last one may not yet have let go of it
    assert peak < 4 * HUGE
    assert len(list((tmp_path / "outputs").glob("*.txt"))) == 2


# 15: what nobody can read. How it looks on a terminal and on the wires is in `test_tool_words`.


def unescaped(text: str) -> str:
    """What a text was before its halves of surrogate pairs were escaped."""
    return json.loads('"' + text.replace('"', '\\"').translate({n: f"\\u{n:04x}" for n in range(32)}) + '"')  # type: ignore[no-any-return]


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from("\ud800\udfff\\u\0"), max_size=30))
@example("a\ud800b")
def test_case_15_any_text_is_kept_so_that_it_can_be_told_what_it_was(words: str) -> None:
    @tool
    async def say() -> Any:
        return [words, "plain \\ud800"]

    async def said() -> ToolResult:
        async with Executor([say]) as executor:
            return await executor.invoke(ToolCall("1", "say"))

    result = asyncio.run(said())
    read = [unescaped(each) for each in result.content] if result.warnings else result.content

    msgspec.json.encode(result)
    assert result.outcome == "ok"
    assert read == [words, "plain \\ud800"]


@pytest.mark.parametrize("where", ["loop", "process"])
async def test_case_15_bytes_that_are_no_text_are_kept_as_base64(where: str) -> None:
    async with Executor([tool(not_utf8, name="give", isolation=None if where == "loop" else "process")]) as executor:
        (result,) = await results_of(executor, call("give"))

    assert (result.content, len(result.warnings)) == ("/wBhgA==", 1)


def not_utf8() -> bytes:
    return b"\xff\x00a\x80"


async def test_case_15_odd_text_beside_the_result_is_harmless_too(tmp_path: Path) -> None:
    @tool
    async def give() -> Output:
        return Output("fine", ("careful\ud800",), (Attachment("n\udcff.txt", "text/plain", b"x"),))

    async with recorded(tmp_path, give) as executor:
        (result,) = await results_of(executor, call("give"))

    assert (result.warnings, result.attachments[0].name) == (("careful\\ud800",), "n\\udcff.txt")
    msgspec.json.encode(result)


@pytest.mark.parametrize("words", ["a\ud800b", "nul \0 end", "\x1b[2J\u202e\u200b"])
async def test_case_15_odd_text_comes_back_from_the_record_as_it_was_sent(tmp_path: Path, words: str) -> None:
    @tool
    async def say() -> str:
        return words

    async with recorded(tmp_path, say) as executor:
        (result,) = await results_of(executor, call("say"))
        run = executor.run
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        settled = [event for event in await journal.history(run) if getattr(event, "result", None) is not None]

    assert [event.result.content for event in settled] == [result.content]  # type: ignore[union-attr]


# 16: JSON without an end.


@tool
async def take(x: Any = None) -> str:
    return "taken"


DEEP = "[" * 100_000
ENDLESS: dict[str, tuple[str, str]] = {
    "deep and whole": (f'{{"x": {DEEP}{"]" * 100_000}}}', "nested deeper than 100"),
    "deep and cut off": (f'{{"x": {DEEP}', "nested deeper than 100"),
    "beyond a float": ('{"x": 1e999}', "too large"),
    "a million digits": (f'{{"x": {"9" * 10**6}}}', "too large"),
    "a million keys": ('{"x": {' + ",".join(f'"key{n}": {n}' for n in range(10**6)) + "}}", "longer than"),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_case_16_arguments_without_an_end_are_refused_in_words(tmp_path: Path, name: str) -> None:
    written, words = ENDLESS[name]
    async with recorded(tmp_path, take) as executor:
        refused = await executor.invoke(ToolCall("1", "take", written))
        after = await executor.invoke(ToolCall("2", "take", {"x": 1}))

    assert (refused.outcome, after.content) == ("invalid_arguments", "taken")
    assert words in refused.text
    assert len(refused.text) < 5_000


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "outcome", "kind"),
    [
        (lambda: nested(100_000), "invalid_arguments", "CallAsked"),
        (lambda: float("inf"), "invalid_arguments", "CallAsked"),
        (lambda: 10 ** (10**6), "invalid_arguments", "CallAsked"),
    ],
)
async def test_case_16_a_program_that_passes_such_values_is_answered_and_it_is_on_record(
    tmp_path: Path, make: Any, outcome: str, kind: str
) -> None:
    async with recorded(tmp_path, take) as executor:
        result = await executor.invoke(ToolCall("1", "take", {"x": make()}))
        run = executor.run
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        kinds = [type(event).__name__ for event in await journal.history(run)]

    assert (result.outcome, kinds[1:3]) == (outcome, [kind, "CallSettled"])


@pytest.mark.parametrize(
    ("make", "outcome", "words"),
    [
        (lambda: nested(100_000), "failed", "nested deeper than 100"),
        (lambda: 10 ** (10**6), "failed", "too many digits"),
        (lambda: {"a": [10**5000]}, "failed", "too many digits"),
        (lambda: DEEP, "ok", "[cut:"),
        (lambda: float("inf"), "ok", "inf"),
        (lambda: {f"k{n}": n for n in range(10**6)}, "ok", "[cut:"),
    ],
)
async def test_case_16_results_without_an_end_are_cut_or_refused(
    tmp_path: Path, make: Any, outcome: str, words: str
) -> None:
    @tool
    async def give() -> Any:
        return make()

    async with recorded(tmp_path, give) as executor:
        (result,) = await results_of(executor, call("give"))

    assert result.outcome == outcome
    assert words in result.text
    assert len(result.text) <= 10_000


# 17: schemas that attack.


def bomb(levels: int) -> dict[str, Any]:
    """A schema of some lines that stands for 2 to the power of so many."""
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, f"d{levels}": {}}}


def of_x(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


ATTACKS: dict[str, dict[str, Any]] = {
    "a reference to a server": of_x({"$ref": "http://127.0.0.1:9/schema.json"}),
    "a reference to a file": of_x({"$ref": "file:///etc/passwd"}),
    "references in a circle": {**of_x({"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "two to the sixteenth": bomb(16),
    "two hundred thousand names": {"type": "object", "properties": {f"p{n}": {} for n in range(200_000)}},
    "a hundred thousand deep": of_x({"default": nested(100_000)}),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("side", ["input_schema", "output_schema"])
def test_case_17_a_schema_that_attacks_is_refused_when_the_tool_is_made(name: str, side: str) -> None:
    began = time.process_time()
    with pytest.raises(UsageError) as caught:
        Tool(msgspec.structs.replace(ToolDefinition("attack"), **{side: ATTACKS[name]}), lambda **_: None)

    assert isinstance(caught.value, InvalidSchema | InvalidDefinition)
    assert time.process_time() - began < 10


def test_case_17_a_reference_asks_no_server_and_opens_no_file(tmp_path: Path) -> None:
    """A server that nobody connects to, and a pipe that nobody opens: whoever did would wait for ever."""
    pipe = tmp_path / "schema.json"
    os.mkfifo(pipe)
    with socket.create_server(("127.0.0.1", 0)) as server:
        for address in (f"http://127.0.0.1:{server.getsockname()[1]}/schema.json", pipe.as_uri()):
            with pytest.raises(InvalidSchema):
                Tool(ToolDefinition("attack", input_schema=of_x({"$ref": address})), lambda **_: None)
        assert select.select([server], [], [], 0)[0] == []


async def test_case_17_a_pattern_that_backtracks_is_matched_in_linear_time() -> None:
    schema = of_x({"type": "string", "pattern": "^(a+)+$"})
    checked = tool(schema=schema, output_schema={"type": "string", "pattern": "^(a+)+$"}, name="check")(_back)
    async with Executor([checked], policy=Policy(timeout=20)) as executor:
        async with asyncio.timeout(20):
            refused = await executor.invoke(ToolCall("1", "check", {"x": "a" * 50_000 + "!"}))
            failed = await executor.invoke(ToolCall("2", "check", {"x": "aa"}))

    assert (refused.outcome, failed.outcome) == ("invalid_arguments", "failed")


async def _back(x: str) -> str:
    return "a" * 50_000 + "!"
