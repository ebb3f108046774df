"""A question over a context, from the model's first turn to the answer: what its code has, and who is told."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import MissingExtra, ModelError, SandboxUnavailable, UsageError
from handrail.core.events import CallIntended, CallSettled, ReplyGiven
from handrail.core.installation import install_command
from handrail.core.messages import SupervisorMessage
from handrail.execute.policy import Policy
from handrail.rlm import RLM
from handrail.rlm.progress import CellRan, CellRunning, IterationStarted, Progress, QueriesInFlight, RunSpent
from handrail.rlm.record.trajectory import RLMLogger, read
from handrail.rlm.values import LMRequest, LMResponse, RLMIteration
from handrail.sandbox.jail import unavailable
from handrail.testing.journal import MemoryJournal
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import tool
from tests.rlm.root_models import Echo, Root, ready, repl

KINDS = ("process", "monty")

SETUP = """
import json

STATS = {"q1": {"total": 500, "avg": 4.2}, "q2": {"total": 500, "avg": 3.8}, "q3": {"total": 499, "avg": 1.0}}
TOOLS = [{
    "type": "function",
    "function": {
        "name": "get_stats",
        "description": "Get pre-computed statistics for a question",
        "parameters": {
            "type": "object",
            "properties": {"question_id": {"type": "string"}},
            "required": ["question_id"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}]

def tool_handler(name, args):
    if name == "get_stats":
        return json.dumps(STATS.get(args["question_id"], {}))
    return json.dumps({"error": "Unknown tool"})
"""

EXAMPLE = """
results = []
for q in ["q1", "q2", "q3"]:
    stats = json.loads(tool_handler("get_stats", {"question_id": q}))

    # Qualitative analysis with sub-LLM
    insight = llm_query(
        f"Given these stats: {stats}, provide key insights",
        model="gpt-4o-mini"
    )

    results.append({"question": q, "stats": stats, "insight": insight})

FINAL_VAR("results")
"""


@pytest.mark.requirement("rlm.completion")
@pytest.mark.parametrize("kind", KINDS)
def test_the_integration_example_of_the_document_runs_as_it_is_written(kind: str) -> None:
    sub = Echo("gpt-4o-mini")
    with RLM(backend=Root(repl(EXAMPLE)), setup_code=SETUP, environment=kind, other_backends=[sub]) as rlm:
        response = rlm.completion("Analyze responses to questions 1-3 and provide detailed insights")

    results = json.loads(response.response)
    assert [each["question"] for each in results] == ["q1", "q2", "q3"]
    assert results[0]["stats"] == {"total": 500, "avg": 4.2}
    assert results[0]["insight"] == "GIVEN THESE STATS: {'TOTAL': 500, 'AVG': 4.2}, PROVIDE KEY INSIGHTS"
    assert len(sub.asked) == 3
    assert not response.partial


@pytest.mark.requirement("rlm.completion")
@pytest.mark.parametrize("kind", KINDS)
async def test_code_has_the_context_and_asks_models_and_tools(kind: str) -> None:
    notes: list[str] = []

    @tool(side_effects=True)
    def note(words: str) -> str:
        """Write something down."""
        notes.append(words)
        return f"note {len(notes)}"

    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: One.
            b: The other.
        """
        return a + b

    root = Root(
        repl("print(context['name'], FACTOR)", "print(add(1), add(a=2, b=3))", "print(note(words='x'))"),
        repl("found = llm_query_batched(['a', 'b'])\nprint(found, rlm_query('c'), llm_query('d', model='other'))"),
        ready("found"),
    )
    async with RLM(
        root,
        environment=kind,
        other_backends=[Echo(), Echo("other")],
        custom_tools={"note": note, "add": {"tool": add, "description": "Add two."}, "FACTOR": 3},
        policy=Policy(confirm_side_effects=False),
    ) as rlm:
        found = await rlm.acompletion({"name": "Lisbon"}, "the question")

    assert "Lisbon 3\n" in root.read(1) and "2 5\n" in root.read(1) and "note 1\n" in root.read(1)
    assert "['A', 'B'] C D" in root.read(2)
    assert found.response == '["A", "B"]'
    assert notes == ["x"]
    system = root.requests[0].messages[0]
    assert isinstance(system, SupervisorMessage)
    assert "`add(a: int, b: int = 1)`: Add two." in system.text and "`FACTOR`" in system.text


async def test_a_side_effect_of_code_needs_approval_like_any_other() -> None:
    @tool(side_effects=True)
    def erase() -> None:
        raise NotImplementedError

    root = Root(repl("erase()"), ready("'no'"))
    async with RLM(root, environment="process", custom_tools={"erase": erase}) as rlm:
        await rlm.acompletion("x", "the question")

    assert "RuntimeError" in root.read(1) and "waits for a person to confirm it" in root.read(1)


@pytest.mark.requirement("rlm.repl.sandbox")
@pytest.mark.parametrize("kind", ("process", "os", "monty"))
async def test_code_runs_in_another_process_and_what_kills_it_ends_the_cell(kind: str, tmp_path: Path) -> None:
    ends = {
        "monty": "x = [0] * 10**12",
        "os": "import os\nos._exit(7)",
        "process": "import os\nos.kill(os.getpid(), 9)",
    }
    whose = "'monty'" if kind == "monty" else "__import__('os').getpid()"
    root = Root(repl(f"kept = 41\nprint({whose})"), repl(ends[kind]), repl("print(kept + 1)"), ready("kept"))
    async with RLM(root, environment=kind, journal=MemoryJournal()) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert str(os.getpid()) not in root.read(1)
    assert "ran to its end" not in root.read(2)
    assert "42\n" in root.read(3)
    assert found.response == "41"


@pytest.mark.requirement("rlm.on-iteration")
async def test_each_turn_is_told_after_it_with_its_number() -> None:
    told: list[tuple[int, RLMIteration]] = []
    order: list[str] = []

    async def on_iteration(iteration: RLMIteration, index: int) -> None:
        await asyncio.sleep(0)
        told.append((index, iteration))
        order.append(f"told {index}")

    root = Root("Hm.", repl("print(llm_query('a'))", "1 / 0"), ready("'b'"))
    async with RLM(root, environment="process", other_backends=[Echo()]) as rlm:
        await rlm.acompletion("x", "the question", on_iteration=on_iteration)

    assert [index for index, _ in told] == [1, 2, 3]
    empty, failed, last = (iteration for _, iteration in told)
    assert (empty.response, empty.code_blocks) == ("Hm.", [])
    assert [block.result.stdout for block in failed.code_blocks] == ["A\n", ""]
    assert "ZeroDivisionError" in failed.code_blocks[1].result.stderr
    assert [call.response for call in failed.code_blocks[0].result.rlm_calls] == ["A"]
    assert last.final_answer == "b" and last.code_blocks[0].result.final_answer == "b"
    assert [said["role"] for said in last.prompt] == ["system", "user", "assistant", "user", "assistant", "user"]
    json.dumps([iteration.to_dict() for _, iteration in told])


@pytest.mark.requirement("rlm.on-iteration")
async def test_a_plain_function_is_told_too_and_what_it_raises_ends_the_run() -> None:
    def on_iteration(iteration: RLMIteration, index: int) -> None:
        raise LookupError(f"turn {index}")

    root = Root(repl("x = 1"), ready("x"))
    async with RLM(root, environment="process") as rlm:
        with pytest.raises(LookupError, match="turn 1"):
            await rlm.acompletion("x", "the question", on_iteration=on_iteration)

    assert len(root.requests) == 1


def test_a_blocking_completion_tells_its_turns_too() -> None:
    told: list[int] = []
    with RLM(Root(repl("x = 1"), ready("'b'")), environment="process") as rlm:
        rlm.completion("x", "the question", on_iteration=lambda iteration, index: told.append(index))

    assert told == [1, 2]


async def test_queries_are_told_and_watched_and_a_listener_that_fails_breaks_nothing() -> None:
    heard: list[tuple[Any, str]] = []
    seen: list[Any] = []

    def on_request(request: LMRequest, response: LMResponse) -> None:
        assert response.chat_completion is not None
        heard.append((request.prompt, response.chat_completion.response))
        raise RuntimeError("not our problem")

    async def on_event(event: Any) -> None:
        seen.append(event)

    root = Root(repl("print(llm_query_batched(['a', 'b']))"), ready("'c'"))
    async with RLM(
        root, environment="process", other_backends=[Echo()], on_request=on_request, on_event=on_event
    ) as rlm:
        await rlm.acompletion("x", "the question")

    assert sorted(heard) == [("a", "A"), ("b", "B")]
    kinds = [type(event) for event in seen if isinstance(event, Progress)]
    assert kinds.count(IterationStarted) == 2 and kinds.count(CellRunning) == kinds.count(CellRan) == 2
    assert max(event.in_flight for event in seen if isinstance(event, QueriesInFlight)) >= 1
    assert any(isinstance(event, RunSpent) for event in seen)
    assert sum(isinstance(event, ReplyGiven) for event in seen) == 3
    assert sum(isinstance(event, CallSettled) and event.tool == "repl" for event in seen) == 3


async def test_a_reply_is_on_record_before_its_code_runs_however_slow_the_listener_is() -> None:
    journal = MemoryJournal()

    async def on_event(event: Any) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async with RLM(Root(ready("'b'")), environment="process", journal=journal, on_event=on_event) as rlm:
        await rlm.acompletion("x", "the question")

    kinds = [type(event) for event in journal.events]
    given = kinds.index(ReplyGiven)
    assert kinds[:given].count(CallIntended) == 1  # that makes the REPL ready
    assert kinds[given:].count(CallIntended) == 1


@pytest.mark.parametrize("is_async", (False, True))
@pytest.mark.parametrize("kind", (CallIntended, CallSettled, ReplyGiven, CellRan, RunSpent))
async def test_what_a_watcher_raises_ends_the_run_before_its_next_turn_and_fails_no_call(
    kind: type, is_async: bool
) -> None:
    sent: list[str] = []

    @tool(side_effects=True)
    def send(words: str) -> str:
        """Send something."""
        sent.append(words)
        return words

    def raises(event: object) -> None:
        if isinstance(event, kind):
            raise LookupError("the watcher is gone")

    async def raises_late(event: object) -> None:
        raises(event)

    root, journal = Root(repl("x = [llm_query('a'), send('once')]"), ready("x")), MemoryJournal()
    options: dict[str, Any] = {"other_backends": [Echo()], "journal": journal, "run": "r"}
    options |= {"custom_tools": {"send": send}, "policy": Policy(confirm_side_effects=False)}
    async with RLM(root, on_event=raises_late if is_async else raises, **options) as rlm:
        with pytest.raises(LookupError, match="the watcher is gone"):
            await rlm.acompletion("text", "question")
    assert [event.outcome for event in journal.events if isinstance(event, CallSettled) and event.outcome != "ok"] == []
    async with RLM(root, **options) as rlm:
        assert (await rlm.aresume("r", "text", "question")).response == '["A", "once"]'

    assert sent == ["once"]


async def test_a_model_that_writes_code_is_told_how_much_the_others_read() -> None:
    class Small(Echo):
        window = 4_096

    for window, said in ((None, "8,192"), (30_000, "30,000")):
        root = Root(ready("1"))
        async with RLM(root, environment="process", other_backends=[Small()], sub_window=window) as rlm:
            await rlm.acompletion("text", "question")
        assert f"It can read some {said} characters at once" in str(root.requests[0].messages[0])
    with pytest.raises(UsageError, match="sub_window must be at least 1"):
        RLM(Root(), sub_window=0)


async def test_every_turn_is_in_the_trajectory_and_no_key_is(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path)
    root = Root(repl("print(1)"), ready("'b'"))
    async with RLM(root, environment="process", logger=logger, setup_code="x = 1") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert logger.log_file_path is not None
    trajectory = read(logger.log_file_path)
    assert trajectory.metadata is not None and trajectory.metadata.environment_type == "process"
    assert [each.iteration.final_answer for each in trajectory.iterations] == [None, "b"]
    assert found.metadata is not None and len(found.metadata["iterations"]) == 2


def test_a_key_is_nowhere_to_be_seen(tmp_path: Path) -> None:
    key = "canary-0123456789abcdef"
    logger = RLMLogger(tmp_path)
    kwargs = {"model_name": "m", "api_key": key, "base_url": "http://127.0.0.1:9/v1", "sampling_args": {"seed": 1}}
    with RLM("openai", kwargs, logger=logger) as rlm:
        assert key not in repr(rlm)

    assert key not in (tmp_path / logger.log_file_path).read_text() if logger.log_file_path else False


async def test_several_models_are_asked_by_their_names_and_the_first_by_default() -> None:
    one, two = Echo("one"), Echo("two")
    root = Root(repl("print(llm_query('a'), llm_query('b', model='two'), llm_query('c', model='none'))"), ready("1"))
    async with RLM(root, environment="process", other_backends=[one, two]) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (one.asked, two.asked) == (["a"], ["b"])
    assert "__LLM_ERROR__|unknown_model|0|" in root.read(1)
    assert found.usage_summary.model_usage_summaries.keys() == {"root", "one", "two"}


def test_a_blocking_completion_works_inside_a_running_loop() -> None:
    async def inside() -> str:
        with RLM(Root(ready("context")), environment="process") as rlm:
            return rlm.completion("a task").response

    assert asyncio.run(inside()) == "a task"


async def test_a_task_alone_is_context_and_question() -> None:
    root = Root(ready("context"))
    async with RLM(root, environment="process") as rlm:
        await rlm.acompletion("Count to three.")

    assert "Count to three." in root.read(0) and "it is also the whole of `context_0`" in root.read(0)


async def test_files_are_read_from_code_as_far_as_it_asks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n" * 10_000 + "needle\n")
    (tmp_path / "b.txt").write_text("beta\n")
    root = Root(repl("found = context.search('needle')\nprint(found[0]['name'], found[0]['line'])"), ready("'a'"))
    async with RLM(root, environment="process") as rlm:
        await rlm.acompletion(tmp_path, "Where is the needle?")

    assert "a.txt 10000" in root.read(1)
    assert "needle" not in root.read(0).replace("Where is the needle?", "")


async def test_the_tools_of_an_ensemble_live_as_long_as_the_run() -> None:
    lives: list[str] = []

    async def prepare() -> None:
        lives.append("prepared")

    async def close() -> None:
        lives.append("closed")

    @tool
    def shout(words: str) -> str:
        """Say it loud."""
        lives.append("used")
        return words.upper()

    group = Ensemble("voices", [shout], on_prepare=prepare, on_close=close)
    root = Root(repl("print(shout('hey'))"), ready("1"))
    async with RLM(root, environment="process", custom_tools={"voices": group}) as rlm:
        await rlm.acompletion("x", "the question")

    assert "HEY" in root.read(1)
    assert lives == ["prepared", "used", "closed"]


async def test_a_tool_that_remembers_answers_code_from_memory() -> None:
    looked: list[str] = []

    @tool(side_effects=False, deduplicator="exact")
    def look(at: str) -> str:
        """Look something up."""
        looked.append(at)
        return at.upper()

    root = Root(repl("print(look('a'), look(at='a'))"), repl("print(look('a'), look('b'))"), ready("1"))
    async with RLM(root, environment="process", custom_tools={"look": look}) as rlm:
        await rlm.acompletion("x", "the question")

    assert "A A\n" in root.read(1) and "A B\n" in root.read(2)
    assert looked == ["a", "b"]


async def test_a_tool_with_a_name_that_is_none_in_python_is_called_by_one_that_is() -> None:
    @tool(name="list-issues", side_effects=False)
    def issues(of: str) -> str:
        """What is open."""
        return f"nothing of {of}"

    root = Root(repl("print(list_issues('x'), tool_handler('list-issues', {'of': 'y'}))"), ready("1"))
    async with RLM(root, environment="process", custom_tools={issues.name: issues}) as rlm:
        await rlm.acompletion("x", "the question")

    assert "nothing of x nothing of y\n" in root.read(1)


async def test_what_code_writes_over_is_put_right() -> None:
    root = Root(repl("llm_query = 'mine now'"), repl("print(llm_query('a'))"), ready("1"))
    async with RLM(root, environment="process", other_backends=[Echo()]) as rlm:
        await rlm.acompletion("x", "the question")

    assert "A\n" in root.read(2)


@pytest.mark.parametrize(
    "name", ["llm_query", "rlm_query_batched", "SHOW_VARS", "answer", "context", "history", "repl"]
)
def test_a_name_that_the_repl_has_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="rename it"):
        RLM(Root(), custom_tools={name: len})


@pytest.mark.parametrize(
    "options",
    [
        {"environment_kwargs": {"image": "x"}},
        {"max_iterations": 0},
        {"max_timeout": 0},
        {"max_budget": -1},
        {"custom_tools": {"x": object()}},
        {"custom_tools": {"x": [float("nan")]}},
        {"custom_tools": {"x": {1: "one", "1": "another"}}},
        {"custom_tools": {"no name": 1}},
        {"concurrency": 0},
        {"other_backends": [Echo()], "other_backend_kwargs": []},
        {"other_backends": [Echo("twin"), Echo("twin")]},
        {"backend_kwargs": {"model_name": "m"}},
    ],
)
def test_what_cannot_be_used_is_said_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RLM(Root(), **options)


def test_a_service_without_a_model_is_said_in_the_words_of_whoever_wrote_it() -> None:
    with pytest.raises(UsageError, match=r"'openai:<model>', or backend_kwargs=\{'model_name': '<model>'\}"):
        RLM(backend="openai", setup_code="x = 1")


def test_a_sandbox_that_is_not_there_is_said_at_once_and_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="there is no sandbox 'docker'; there are monty, os, process"):
        RLM(Root(), environment="docker")
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(MissingExtra, match=re.escape(install_command("rlm"))):
        RLM(Root())
    monkeypatch.setenv("PATH", "/nonexistent")
    unavailable.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
            RLM(Root(), environment="os")
    finally:
        unavailable.cache_clear()


async def test_setup_code_that_fails_is_an_error_for_the_user() -> None:
    root = Root()
    async with RLM(root, environment="process", environment_kwargs={"setup_code": "1 / 0"}) as rlm:
        with pytest.raises(UsageError, match=r"(?s)setup_code failed.*ZeroDivisionError"):
            await rlm.acompletion("x")

    assert root.requests == []


async def test_a_root_model_that_fails_at_once_is_an_error_and_later_it_is_a_partial_answer() -> None:
    async with RLM(Root(), environment="process") as rlm:
        with pytest.raises(ModelError):
            await rlm.acompletion("x")

    async with RLM(Root(repl('answer["content"] = "so far"')), environment="process") as rlm:
        found = await rlm.acompletion("x")
    assert (found.response, found.partial, found.error_type) == ("so far", True, "model_error")


@pytest.mark.parametrize("name", ["max_iteration", "watcher"])
def test_an_argument_that_there_is_not_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: None}

    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        RLM(Root(), **options)
