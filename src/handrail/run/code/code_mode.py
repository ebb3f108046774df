"""The tool `run_code`: a model writes Python that calls tools, and each call goes through the executor.

It changes nothing by itself. Whatever its code does to the world, it does by calls of other tools, each under a key. So
code that was cut off by a crash runs again from its beginning, and what was done is answered from the record.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast, get_args

from msgspec.structs import replace

from handrail.core.calls import Output, ToolResult
from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context
from handrail.core.errors import ToolError, UsageError
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.core.invocation import Invocation
from handrail.core.messages import Conversation, SupervisorMessage
from handrail.core.tasks import run_to_completion
from handrail.execute.executor import Executor
from handrail.run.code.bridge import OWN, SOURCE, ToolBridge
from handrail.run.code.callers import CallVolume, CodeCaller, LiveCaller, ReplayCaller
from handrail.run.code.functions import (
    CALL,
    DESCRIPTION,
    RUN_CODE,
    code_instructions,
    function_source,
    function_stub,
    functions_by_name,
)
from handrail.run.code.notebook import InterpreterNotebook, RecordedCodeCall, RecordedCodeRun
from handrail.sandbox.port import Cell, Ending, Kind, ReplLimits, Sandbox, create_sandbox
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool
from handrail.tools.word_forms import LONGEST

DAY = 86_400.0
ALWAYS_DIRECT = ("find_tools", "read_output")
"""Tools of the runtime itself."""
_FOUND = 8
"""Functions that a search tells at most."""
OPEN = 16
"""Runs whose interpreters are kept open."""
_GONE = "The interpreter was ended. Variables of earlier code are made again before your next code runs."
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "minLength": 1, "description": "Python."}},
    "required": ["code"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSettings:
    """How a session lets its model call tools from code."""

    sandbox: Kind = "monty"
    """The sandbox in which the code runs: see the page on sandboxes."""
    limits: ReplLimits = field(default_factory=ReplLimits)
    direct: tuple[str, ...] = ()
    """Patterns of the names of tools that the model calls itself, and code cannot. So for those that take secrets."""

    most: int = 64
    """The most functions whose signatures the model is told; with more, it is told their names, and code finds them."""

    def __post_init__(self) -> None:
        if self.sandbox not in get_args(Kind):
            raise UsageError(f"there is no sandbox {self.sandbox!r}; there are {', '.join(get_args(Kind))}")

    def is_direct(self, tool: Tool) -> bool:
        """Whether code cannot call it. Not one that takes a secret: what a model writes into code is on record."""
        named = any(fnmatchcase(tool.name, pattern) for pattern in self.direct)
        return named or tool.name in ALWAYS_DIRECT or bool(tool.secrets)


class _RunInterpreter:
    """The interpreter of one run."""

    def __init__(self, notebook: InterpreterNotebook[ToolBridge], context: Context, carried: CallVolume) -> None:
        self.notebook = notebook
        self.context = context
        """That of the latest call, for code that runs again."""
        self.carried = carried
        self.turn = asyncio.Lock()
        """One piece of code at a time: they share their variables."""
        self.is_read = False
        """Whether the notebook has what the record says of an earlier process."""


class CodeMode(ClosedOnExit):
    """Adds `run_code` to an executor. Close it, or use it in an `async with` block. Belongs to one event loop.

    A model need not be offered the tools in `hidden`: `briefed` tells it their functions.
    """

    def __init__(self, executor: Executor, code: CodeSettings = CodeSettings(), *, pauses: bool = False) -> None:
        """
        Args:
            executor: Settles the calls of the code, and of `run_code` itself.
            code: Where the code runs, and which tools it may not call.
            pauses: A call that waits for a person leaves `run_code` without a result, to be run again; else the code
                is told.

        Raises:
            UsageError: A tool has a name that code cannot call it by.
            SandboxUnavailable: This machine cannot have the sandbox, with what to do about it.
        """
        tools = [tool for tool in executor.tools if not code.is_direct(tool)]
        if RUN_CODE in executor.tools:
            raise UsageError(f"a tool of yours is called {RUN_CODE!r}, the name of the one that runs code; rename it")
        self._functions = functions_by_name(tools, taken=OWN)
        self._wire = {name: tool.name for name, tool in self._functions.items()}
        self._known = frozenset(tool.name for tool in tools)
        self._code = code
        self._pauses = pauses
        self._sandbox: Sandbox = create_sandbox(code.sandbox, code.limits)
        self._is_started = False
        self._starting = asyncio.Lock()
        self._runs: dict[str, _RunInterpreter] = {}
        self._executor = executor
        untrusted = any(tool.definition.untrusted for tool in tools)
        executor.include(self._tool(untrusted=untrusted))
        self.instructions: str = code_instructions(self._functions, code.sandbox, executor.policy.max_output, code.most)

    @property
    def hidden(self) -> frozenset[str]:
        """The tools that only code calls."""
        return self._known

    @property
    def interpreters(self) -> int:
        """The number of open interpreters."""
        return sum(run.notebook.is_open for run in self._runs.values())

    def briefed(self, conversation: Conversation) -> Conversation:
        """The conversation with the functions in it, once."""
        told = (each.text for each in conversation.messages if isinstance(each, SupervisorMessage))
        if not self._known or self.instructions in told:
            return conversation
        return conversation.supervised(self.instructions, self._executor.runs.now())

    def _tool(self, *, untrusted: bool) -> Tool:
        definition = ToolDefinition(RUN_CODE, DESCRIPTION, _SCHEMA, timeout=DAY, untrusted=untrusted, tags=("always",))
        return Tool(definition, self._perform, style="invocation", isolation="loop", share=False, replays=True)

    async def _perform(self, invocation: Invocation) -> Output:
        await self._start()
        run = self._run(invocation.context)
        async with run.turn:
            await self._prepare(run, invocation.context)
            source: str = invocation.arguments["code"]
            live = LiveCaller(invocation, pauses=self._pauses, carried=run.carried)
            async with run.notebook.bridge(live, invocation.id) as bridge:
                notices = await run.notebook.ready()
                cell = await run.notebook.run(source, bridge)
                if cell.ending == "lost":  # nothing is done twice, so it may be tried once more
                    run.notebook.was_lost()
                    bridge.again()
                    notices = await run.notebook.ready()
                    cell = await run.notebook.run(source, bridge)
            ran = RecordedCodeRun(cell.ending, cell.state, cell.stdout)
            await run.notebook.settled(RecordedCodeCall(invocation.id, (source,), (ran,)))
        return _output(cell, ran, notices)

    def _run(self, context: Context) -> _RunInterpreter:
        id = self._id(context)
        here = replace(context, deadline=None)
        if id not in self._runs:
            self._runs[id] = self._begun(id, here)
        self._runs[id].context = here
        return self._runs[id]

    def _id(self, context: Context) -> str:
        return context.run or self._executor.run

    async def _prepare(self, run: _RunInterpreter, context: Context) -> None:
        if not run.is_read:
            for done in code_calls(await self._executor.runs.history(self._id(context))):
                run.notebook.was_done(done)
            run.is_read = True
        if not run.notebook.is_open:
            await self._close_some()

    def _begun(self, id: str, context: Context) -> _RunInterpreter:
        async def recall(call_id: str) -> ReplayCaller:
            known = await self._executor.runs.begun_calls(run.context)
            return ReplayCaller(self._executor, run.context, call_id, known)

        source = "\n".join((CALL, SOURCE, *(function_source(tool, name) for name, tool in self._functions.items())))
        notebook = InterpreterNotebook[ToolBridge](
            self._sandbox,
            seed=zlib.crc32(id.encode()),
            source=source,
            functions=frozenset((*OWN, *self._functions)),
            bridge=self._bridge,
            recall=recall,
        )
        run = _RunInterpreter(notebook, context, CallVolume(self._code.limits.calls_bytes))
        return run

    def _bridge(self, caller: CodeCaller, call_id: str) -> ToolBridge:
        return ToolBridge(caller, self._wire, self._known, self._code.limits.host_calls, self._find)

    def _find(self, words: str) -> str:
        names = {tool.name: name for name, tool in self._functions.items()}
        best = self._executor.tools.index.search(words[:LONGEST], _FOUND, self._known.__contains__)
        found = dict.fromkeys((*filter(self._functions.__contains__, words.split()), *(names[each] for each in best)))
        return (
            "\n".join(function_stub(self._functions[name], name) for name in found)
            or "no function fits; use other words"
        )

    async def _start(self) -> None:
        async with self._starting:
            if not self._is_started:
                await self._sandbox.__aenter__()
                self._is_started = True

    async def _close_some(self) -> None:
        """End interpreters of idle runs, before there are too many; their variables are made again when they go on."""
        opened = [run for run in self._runs.values() if run.notebook.is_open]
        idle = [run for run in opened if not run.turn.locked()]
        for run in idle[: max(0, len(opened) + 1 - OPEN)]:
            await run.notebook.aclose()

    async def aclose(self) -> None:
        await run_to_completion(self._close())

    async def _close(self) -> None:
        for run in self._runs.values():
            await run.notebook.aclose()
        self._runs.clear()
        if self._is_started:
            self._is_started = False
            await self._sandbox.aclose()


_OWN_FRAME = re.compile(r'  File "[^"\n]*", line \d+, in \w+\n(?:    return _(?:call|host)\(.*\n)')
"""A line of the functions that we define there, in a traceback."""
_ENDINGS = {
    "timeout": "the code was stopped: out of time",
    "memory": "the code was stopped: out of memory",
    "output": "the code was stopped: it printed too much",
    "calls": "the code was stopped: it made too many calls",
    "lost": "the interpreter ended under the code",
}


def _output(cell: Cell, ran: RecordedCodeRun, notices: tuple[str, ...]) -> Output:
    """What the model gets.

    Raises:
        ToolError: The code failed, with its line and with what it had printed by then.
    """
    printed = cell.stdout + (f"\n[stderr]\n{cell.stderr}" if cell.stderr else "")
    if cell.dropped:
        notices += (f"{cell.dropped:,} more characters were printed and not kept; print less",)
    if cell.ending == "ok":
        return Output(printed or NOTHING, notices)
    error = _OWN_FRAME.sub("", cell.error)
    said = [*notices, _ENDINGS.get(cell.ending, ""), error, _GONE if cell.state == "gone" else ""]
    if printed.strip():
        said.append(f"It had printed:\n{printed}")
    raise ToolError(ran.error_code, "\n".join(filter(None, said)))


NOTHING = "(the code printed nothing; print what you want to see)"


def code_calls(events: Iterable[Recorded]) -> Iterator[RecordedCodeCall]:
    """The calls that have their results, in order."""
    asked: dict[str, str] = {}
    for event in events:
        match event:
            case CallIntended(tool=name, call_id=id, arguments={"code": str(code)}) if name == RUN_CODE:
                asked[id] = code
            case CallSettled(tool=name, call_id=id, result=ToolResult() as result) if name == RUN_CODE and id in asked:
                if (ran := _recorded_run(result)) is not None:
                    yield RecordedCodeCall(id, (asked[id],), (ran,))


def _recorded_run(result: ToolResult) -> RecordedCodeRun | None:
    """The recorded run; None if the code never came to an end."""
    if result.outcome == "ok":
        whole = isinstance(result.content, str) and not result.warnings
        printed = "" if result.content == NOTHING else result.content
        return RecordedCodeRun("ok", stdout=printed if whole else None)
    _, _, said = (result.error.code if result.error else "").partition("code_")
    ending, _, state = said.partition("_")
    return RecordedCodeRun(cast("Ending", ending), state or "kept") if ending in get_args(Ending) else None
