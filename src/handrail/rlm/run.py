"""One run: a REPL, the executor that its calls go through, and the runner that asks the root model, until an answer.

Everything is on record, so the run can be taken up by another process: the same conversation, the same variables, and
nothing done twice. Whatever limit ends it, what it found is in the completion.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import HandrailError, JournalError, LimitExceeded, ModelError
from handrail.core.messages import Conversation
from handrail.core.ports import Model
from handrail.core.tasks import run_to_completion
from handrail.execute.executor import Executor
from handrail.rlm import prompts
from handrail.rlm.code_policy import policy_of_code
from handrail.rlm.contexts import HeldContext, load
from handrail.rlm.iterations import IterationReporter, OnIteration, Trajectory
from handrail.rlm.outcome import (
    RlmRunEnding,
    answer_in,
    conversation_to_resume,
    is_waiting_for_person,
    partial_completion,
)
from handrail.rlm.query.queries import Queries
from handrail.rlm.query.single_query import WAITING, completion_of_error
from handrail.rlm.query.spending import Spending
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.recursion import recursive_tools
from handrail.rlm.repl import final_answers
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.handler_channel import Channels
from handrail.rlm.repl.notebook import ReplNotebook, contexts_of_message
from handrail.rlm.repl.prelude import functions, prelude
from handrail.rlm.repl.query_tools import QUERIES, caller_of_child_run, caller_of_query, query_tools
from handrail.rlm.repl.repl_tool import ReplTool, check_setup
from handrail.rlm.repl.root_model import ReplModel
from handrail.rlm.repl.turns import REPL, ReplArguments, turns_of
from handrail.rlm.run_record import RlmRunRecord, read_run_history
from handrail.rlm.run_setup import RlmSetup
from handrail.rlm.scripted_root import choose_root
from handrail.rlm.values import RLMChatCompletion, RLMMetadata, UsageSummary
from handrail.rlm.watchers import WatchNotifier
from handrail.run.code.callers import CallVolume, CodeCaller, ReplayCaller, wind_up_seconds
from handrail.run.code.variable_dumps import VariableDumps
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.run.runner import Runner
from handrail.sandbox.port import Sandbox
from handrail.tools.registry import RegisteredTools, prepared_tools

TASK = 20_000
"""Characters up to which a prompt without a question is shown to the model whole, as its task."""
_NEVER = 10**9
_LEAST = 0.001
"""Seconds, where none are left: the runner takes no 0."""


@asynccontextmanager
async def opened(setup: RlmSetup, run: str, sandbox: Sandbox, spend: Spending) -> AsyncIterator[RlmRun]:
    """A run that is begun, or taken up if it is on record. At the end nothing of it is left running."""
    async with prepared_tools(setup.custom.tools) as tools:
        made = RlmRun(setup, run, sandbox, spend, tools)
        try:
            yield made
        finally:
            await run_to_completion(made.aclose())


class RlmRun:
    """One or, in a REPL that is kept, several questions. Belongs to one event loop."""

    def __init__(self, setup: RlmSetup, run: str, sandbox: Sandbox, spend: Spending, custom: RegisteredTools) -> None:
        self.id = run
        self._setup = setup
        self._sandbox = sandbox
        self._spend = spend
        self._custom = custom
        self._watching = WatchNotifier(setup.watcher, run, setup.depth, spend)
        self._queries = Queries(
            setup.models,
            setup.root,
            sub=setup.sub,
            journal=setup.journal,
            concurrency=setup.concurrency,
            spend=spend,
            on_request=self._watching.on_request(setup.on_request),
            tracer=setup.tracer,
            clock=setup.clock,
            new_id=setup.new_id,
        )
        self._channels: Channels = {}
        self._notebook = ReplNotebook(
            sandbox,
            seed=zlib.crc32(run.encode()),
            source=f"{final_answers.FUNCTIONS}\n{prelude(custom)}",
            functions=functions(custom).union(final_answers.CALLED),
            bridge=self._bridge,
            recall=self._recall,
            reset=final_answers.RESET,
            dumps=None if setup.state is None else VariableDumps(setup.state, run),
        )
        self._carried = CallVolume(setup.limits.calls_bytes)
        pauses = setup.on_wait == "pause"
        cells = ReplTool(self._notebook, self._watching.tell, depth=setup.depth, pauses=pauses, carried=self._carried)
        asking = (*query_tools(self._queries, self._channels, setup.depth + 1), *recursive_tools(self._child))
        self._names = frozenset(tool.name for tool in (*asking, *custom))
        self._executor = Executor(
            (cells.tool(), *asking, *custom),
            policy=policy_of_code(setup.policy),
            approver=setup.approver,
            deps=setup.deps,
            journal=setup.journal,
            tracer=setup.tracer,
            clock=setup.clock,
            new_id=setup.new_id,
        )
        self._held: list[HeldContext] = []
        self._is_logged = False
        self._below: dict[str, Trajectory] = {}
        self._conversation = Conversation()
        self._is_over = False
        """Whether a limit ended it: then it waits for nobody."""
        self._context = Context(run=run)

    # ── asking ───────────────────────────────────────────────────────────────────────

    async def ask(
        self,
        prompt: Any,
        question: str | None = None,
        context: Context = Context(),
        *,
        seconds: float | None = None,
        on_iteration: OnIteration | None = None,
        logger: RLMLogger | None = None,
    ) -> RLMChatCompletion:
        """Answer a question over a context. What the record has of this run already is not asked or done again.

        Without a `prompt`, the run must be on record and have had no context but its task. `context` says on whose
        behalf it runs.

        Raises:
            UsageError: The context or the question is not what it was, or the setup code fails.
            ModelError: The root model gave no first reply.
            JournalError: The record cannot be kept.
        """
        self._watching.begin()
        started, spent = self._setup.clock.monotonic(), self._spend.summary()
        self._is_logged = logger is not None
        context = self._context = replace(context, run=self.id, deadline=_deadline(seconds))
        number = len(self._held)
        record = RlmRunRecord() if number else await read_run_history(self._executor, context)
        if not number:
            self._conversation = record.conversation
        record.check(self.id, question)
        if prompt is None:
            prompt = record.task(self.id)
        held = await self._give(prompt, record)
        self._count(record)
        try:
            await self._begin(held, record, context, seconds)
        except LimitExceeded as late:
            ending = RlmRunEnding(record.conversation, late, self._setup.max_iterations, seconds)
            return await self._completion(prompt, ending, started, spent, logger)
        conversation = conversation_to_resume(record.conversation, self._setup.max_iterations)
        if not conversation.messages:
            conversation = self._first(prompt, question, held)
        iterations = IterationReporter(
            run=self.id,
            told=len(turns_of(record.conversation.messages)),
            of=self._setup.max_iterations,
            depth=self._setup.depth,
            clock=self._setup.clock,
            tell=self._watching.tell,
            on_iteration=on_iteration,
            logger=logger,
            below=self._below,
        )
        ending = await self._go(conversation, context, iterations, seconds)
        self._conversation, self._is_over = ending.conversation, ending.error is not None
        return await self._completion(prompt, ending, started, spent, logger)

    def _first(self, prompt: Any, question: str | None, held: HeldContext) -> Conversation:
        setup, number = self._setup, len(self._held) - 1
        begun = self._conversation
        if not begun.messages:
            words = prompts.system(
                setup.system_prompt,
                kind=self._sandbox.kind,
                deeper=setup.has_children,
                tools=self._custom,
                values=setup.custom.values,
                names="context",
                reads=setup.sub_window,
            )
            begun = begun.supervised(words, self._executor.runs.now())
        task = prompt if question is None and isinstance(prompt, str) and len(prompt) <= TASK else None
        said = prompts.first(held.description, question, task, held.variable, prompts.earlier(number))
        return begun.say(said, at=self._executor.runs.now())

    async def _give(self, prompt: Any, record: RlmRunRecord) -> HeldContext:
        number = len(self._held)
        held = await load(prompt, variable=f"context_{number}")
        self._held.append(held)
        if number:
            values = {f"history_{number - 1}": prompts.history(self._conversation)}
        else:
            values = dict(self._setup.custom.values)
        await self._notebook.give(contexts_of_message(number, held, values))
        for done in record.done:
            self._notebook.was_done(done)
        return held

    async def _begin(self, held: HeldContext, record: RlmRunRecord, context: Context, seconds: float | None) -> None:
        """Make the REPL ready, as a call: so it is on record what it was given, and its code is not run twice.

        Raises:
            LimitExceeded: There was no time for that.
            UsageError: It could not be, for a reason that is the user's to mend.
        """
        number = len(self._held) - 1
        code = self._setup.setup_code if number == 0 else ""
        asked = ReplArguments(blocks=(code,) if code.strip() else (), contexts=(held.digest,))
        call = ToolCall(record.setup_id(self.id, number), REPL, asked.to_dict())
        result = await self._executor.invoke(call, context, self._watching.emit)
        if result.outcome in ("timeout", WAITING) and seconds is not None and _is_late(context, seconds):
            raise LimitExceeded("seconds", seconds)
        check_setup(self.id, result)

    def _count(self, record: RlmRunRecord) -> None:
        """What an earlier process has spent, and what its calls have carried."""
        for model, usage in record.said:
            self._spend.add(model or self._setup.root.name, usage)
        for event in record.calls:
            self._carried.recorded(event)
        for completion in record.completions:
            self._spend.heard(completion)

    async def _go(
        self, conversation: Conversation, context: Context, iterations: IterationReporter, seconds: float | None
    ) -> RlmRunEnding:
        setup = self._setup
        model = ReplModel(
            choose_root(setup.root, setup.sub, setup.sub_window),
            before=iterations.before,
            spend=self._watching.spend,
            check=self._watching.check,
            max_errors=setup.max_errors,
        )
        limits = Limits(
            iterations=setup.max_iterations,
            seconds=_seconds_left(context),
            # Code that says the same again is no failure of a call; what ends a run is said by its own limits.
            same_answer=_NEVER,
            same_failure=_NEVER,
            wrong_calls=_NEVER,
        )
        most = len(self._executor.tools)
        runner = Runner(
            model, self._executor, limits, on_wait="pause", offering=Offering(most=most), new_id=setup.new_id
        )
        error: HandrailError | None = None
        try:
            conversation = await runner.run(conversation, context, self._watching.emit)
        except (LimitExceeded, ModelError) as failed:
            error, conversation = failed, failed.conversation or conversation
            if isinstance(failed, ModelError) and not turns_of(conversation.messages):
                raise
        await iterations.after(conversation.messages)
        if seconds is not None and is_waiting_for_person(conversation) and _is_late(context, seconds):
            error = LimitExceeded("seconds", seconds)
        return RlmRunEnding(conversation, error, setup.max_iterations, seconds)

    async def _completion(
        self, prompt: Any, ending: RlmRunEnding, started: float, spent: UsageSummary, logger: RLMLogger | None
    ) -> RLMChatCompletion:
        completion = RLMChatCompletion(
            root_model=self._setup.root.name,
            prompt=prompt if isinstance(prompt, str | list | dict) else str(prompt),
            response="",
            usage_summary=self._spend.summary().since(spent),
            execution_time=self._setup.clock.monotonic() - started,
            metadata=None if logger is None else logger.get_trajectory(),
            run=self.id,
        )
        answer = answer_in(ending.conversation)
        if answer is not None:
            completion.response = answer
            await self._notebook.discard()
            return completion
        return await partial_completion(completion, ending, self._notebook)

    # ── what its code asks for ───────────────────────────────────────────────────────

    def _bridge(self, caller: CodeCaller, call_id: str) -> ReplBridge:
        return ReplBridge(caller, call_id, self._names, self._channels, spend=self._spend)

    async def _recall(self, call_id: str) -> ReplayCaller:
        context = replace(self._context, deadline=None)
        return ReplayCaller(self._executor, context, call_id, await self._executor.runs.begun_calls(context), QUERIES)

    async def _child(self, prompt: Any, model: str | None, run: str, context: Context) -> RLMChatCompletion:
        setup = self._setup
        if not setup.has_children:
            return await self._queries.query(
                prompt, model, depth=setup.depth + 1, run=run, context=caller_of_query(context)
            )
        root = setup.root if model is None else self._queries.route(model, setup.depth + 1)
        self._spend.check()
        spend = self._spend.below()
        try:
            with self._spend.asking(run):
                async with opened(setup.below(root), run, self._sandbox, spend) as child:
                    logger = self._logger_of(root)
                    # Its time is that of the call, which cuts it off.
                    completion = await child.ask(prompt, context=caller_of_child_run(context), logger=logger)
        except JournalError:
            raise
        except Exception as error:  # what it has used by then it has used
            nothing = RLMChatCompletion(root_model=root.name, prompt=prompt, response="", run=run)
            nothing.usage_summary = spend.summary()
            return completion_of_error(nothing, error)
        if completion.metadata is not None:  # it is for the trajectory; the journal has all of it already
            self._below[run], completion.metadata = completion.metadata, None
        return completion

    def _logger_of(self, root: Model) -> RLMLogger | None:
        """For a child, in memory: as `rlms` has it, its trajectory stands in that of its parent."""
        if not self._is_logged:
            return None
        setup, logger = self._setup, RLMLogger(clock=self._setup.clock)
        logger.log_metadata(
            RLMMetadata(
                root_model=root.name,
                max_depth=setup.max_depth,
                max_iterations=setup.max_iterations,
                backend=root.name,
                environment_type=self._sandbox.kind,
            )
        )
        return logger

    async def aclose(self) -> None:
        """Let go of everything. The run can be taken up again, here or elsewhere."""
        async with AsyncExitStack() as stack:
            for held in self._held:
                stack.push_async_callback(held.aclose)
            stack.push_async_callback(self._watching.aclose)
            stack.push_async_callback(self._queries.aclose)
            stack.push_async_callback(self._executor.aclose)
            stack.push_async_callback(self._notebook.aclose)
            if self._is_over or not is_waiting_for_person(self._conversation):
                reason = "done" if answer_in(self._conversation) is not None else "stopped"
                await self._executor.finish(self.id, reason)


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


def _is_late(context: Context, seconds: float) -> bool:
    """Whether its time is up, as it is for a cell that waits for models."""
    left = _seconds_left(context)
    return left is not None and left <= wind_up_seconds(seconds)


def _seconds_left(context: Context) -> float | None:
    return None if context.deadline is None else max(context.deadline - asyncio.get_running_loop().time(), _LEAST)
