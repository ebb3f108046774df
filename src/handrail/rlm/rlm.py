"""`RLM`: hand it a question and a context of any size, and a model explores it by writing Python in a sandbox.

    rlm = RLM("openai:gpt-5", other_backends=["openai:gpt-5-mini"])
    print(rlm.completion(Path("logs"), "Which service failed first?").response)

It is thin: `run.py` does the work. The blocking methods wait for the async ones in a loop of their own, so that they
work inside a running loop too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import msgspec

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import Outcome, UsageError
from handrail.core.ports import Journal, Tracer
from handrail.execute.approvers import as_approver
from handrail.rlm.backends import Backend, RlmBackends, make_backend, make_other_backends
from handrail.rlm.custom_tools import read_custom_tools
from handrail.rlm.environment import ReplEnvironment, setup_code_of
from handrail.rlm.iterations import OnIteration
from handrail.rlm.progress import Watch
from handrail.rlm.prompts import SYSTEM
from handrail.rlm.query.single_query import WAITING
from handrail.rlm.query.spending import Spending
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.run import RlmRun, opened
from handrail.rlm.run_setup import RlmRunOptions, RlmSetup
from handrail.rlm.values import RLMChatCompletion, RLMMetadata
from handrail.rlm.watchers import SafeWatcher
from handrail.sandbox.port import ReplLimits, Sandbox
from handrail.sessions.blocking import Closable, LazyPortal

RLM_CALL = "rlm"
"""What a completion is called in a trace: beside `rlm_query`, which is the same for a child."""
_OUTCOMES: dict[str, Outcome] = {WAITING: "needs_confirmation", "limit_exceeded": "limit"}


class RLM(Closable):
    """Models, a sandbox, and limits. Each completion has a REPL of its own, unless it is `persistent`."""

    def __init__(
        self,
        backend: Backend = "openai",
        backend_kwargs: Mapping[str, Any] | None = None,
        *,
        environment: str | Sandbox = "monty",
        environment_kwargs: Mapping[str, Any] | None = None,
        setup_code: str = "",
        max_budget: float | None = None,
        max_timeout: float | None = None,
        max_tokens: int | None = None,
        custom_system_prompt: str | None = None,
        other_backends: Sequence[Backend] | None = None,
        other_backend_kwargs: Sequence[Mapping[str, Any] | None] | None = None,
        sub_window: int | None = None,
        logger: RLMLogger | None = None,
        persistent: bool = False,
        custom_tools: Mapping[str, Any] | None = None,
        custom_sub_tools: Mapping[str, Any] | None = None,
        on_event: Watch | None = None,
        journal: Journal | str | Path | None = None,
        context: Context = Context(),
        state: str | Path | None = None,
        run: str | None = None,
        **of_runs: Unpack[RlmRunOptions],
    ) -> None:
        """
        Args:
            environment: `monty`, `os` or `process`, or a sandbox that is shared and stays its owner's.
            setup_code: Runs in the REPL after the context is there, before the model is asked.
            max_budget: In US dollars, as far as prices are known. It counts, as `max_tokens` does, everything below
                too, and all questions of a persistent one.
            max_timeout: Seconds for one completion, everything below it included.
            other_backends: The models that code asks: the first by default, each by its name.
            sub_window: Characters that the models which code asks can read at once, as the one that writes it is told;
                None is what they say of themselves, or 400,000.
            custom_tools: Functions, tools and ensembles that code may call, and values that it has, by name.
            custom_sub_tools: The same for the children of `rlm_query`; None is the same as for their parent.
            on_event: Told of everything that happens. What it raises ends the run before its next turn.
            journal: Where the record is kept: one that is open, or the file of one. Without it nothing can be resumed.
            context: On whose behalf it runs, with what rights, as part of which trace; what it calls and begins says so
                too. Whoever may not do everything needs the scope `repl`, and of `llm_query` and its like those that
                code may use.
            state: A folder for the variables of REPLs that can be dumped, so that a resumed run has them at once.
            run: The id of the run. If it is on record already, it is taken up.
            of_runs: See `RlmRunOptions`: how far runs may go, who is asked, and who is told.

        Raises:
            UsageError: Something that was given cannot be used.
            MissingExtra: What is needed is not installed.
            SandboxUnavailable: This machine cannot have that sandbox.
        """
        if unknown := of_runs.keys() - RlmRunOptions.__annotations__.keys():
            raise TypeError(f"RLM() got an unexpected keyword argument {min(unknown)!r}")
        if max_timeout is not None and not max_timeout > 0:
            raise UsageError(f"max_timeout must be more than 0 seconds, not {max_timeout!r}")
        Spending(max_budget, max_tokens)  # what is wrong with them is said now
        self._environment = ReplEnvironment(environment, of_runs.get("limits", ReplLimits()))
        if context.run or context.deadline is not None:
            raise UsageError("the run and the time of a completion are not of its context; give run= and max_timeout=")
        self._context = context
        self._backends = RlmBackends(
            make_backend(backend, backend_kwargs), make_other_backends(other_backends, other_backend_kwargs)
        )
        self._journal = Path(journal) if isinstance(journal, str) else journal
        self._run = run
        self._max_timeout, self._max_budget, self._max_tokens = max_timeout, max_budget, max_tokens
        self._persistent = persistent
        self._logger = logger
        self._on_event = on_event
        custom = read_custom_tools(custom_tools)
        if (approver := of_runs.get("approver")) is not None:
            of_runs["approver"] = as_approver(approver)  # one for the run and its children: they ask in turn
        self._setup = RlmSetup(
            root=self._backends.root.model,
            sub=self._backends.sub,
            models=self._backends.by_name,
            sub_window=self._backends.reads if sub_window is None else sub_window,
            setup_code=setup_code_of(environment_kwargs, setup_code),
            system_prompt=custom_system_prompt or SYSTEM,
            custom=custom,
            custom_sub=custom if custom_sub_tools is None else read_custom_tools(custom_sub_tools),
            state=None if state is None else Path(state),
            **of_runs,
        )
        self.portal: LazyPortal = LazyPortal()
        self._kept: PersistentRun | None = None
        self._opening = asyncio.Lock()
        if logger is not None:
            logger.log_metadata(self._metadata(backend_kwargs))

    def __repr__(self) -> str:
        root, kind = self._backends.root.backend, self._environment.kind
        return f"RLM({root!r}, environment={kind!r}, max_depth={self._setup.max_depth})"

    def _metadata(self, backend_kwargs: Mapping[str, Any] | None) -> RLMMetadata:
        setup = self._setup
        return RLMMetadata(
            root_model=setup.root.name,
            max_depth=setup.max_depth,
            max_iterations=setup.max_iterations,
            backend=self._backends.root.backend,
            backend_kwargs=dict(backend_kwargs or {}),  # the logger masks what is secret by its name
            environment_type=self._environment.kind,
            environment_kwargs={"setup_code": setup.setup_code} if setup.setup_code else {},
            other_backends=[each.backend for each in self._backends.others] or None,
        )

    # ── asking ───────────────────────────────────────────────────────────────────────

    def completion(
        self, prompt: Any, root_prompt: str | None = None, on_iteration: OnIteration | None = None
    ) -> RLMChatCompletion:
        """`acompletion`, blocking. Works inside a running loop too. `on_iteration` is called in another thread."""
        return self.portal.call(self.acompletion(prompt, root_prompt, on_iteration))

    async def acompletion(
        self, prompt: Any, root_prompt: str | None = None, on_iteration: OnIteration | None = None
    ) -> RLMChatCompletion:
        """Answer `root_prompt` over the context `prompt`: text, JSON values, a `Path`, `Files`, a stream of bytes.

        With a prompt alone, it is both: a task to work on. A limit that ends the run is in the completion:
        `partial`, with the `error`, and the best that there was as `response`.

        Raises:
            UsageError: The context cannot be read, or the setup code fails.
            ModelError: The root model gave no first reply.
            JournalError: The record cannot be kept.
        """
        if prompt is None:
            raise UsageError("a completion needs a prompt: the context, or the task")
        return await self._ask(self._run or self._setup.new_id("run"), prompt, root_prompt, on_iteration)

    def resume(
        self,
        run: str,
        prompt: Any = None,
        root_prompt: str | None = None,
        on_iteration: OnIteration | None = None,
    ) -> RLMChatCompletion:
        """`aresume`, blocking."""
        return self.portal.call(self.aresume(run, prompt, root_prompt, on_iteration))

    async def aresume(
        self,
        run: str,
        prompt: Any = None,
        root_prompt: str | None = None,
        on_iteration: OnIteration | None = None,
    ) -> RLMChatCompletion:
        """Go on with a run that was cut off, or that a limit ended. The context is needed again, unless the run has
        none but its task; it must be what it was. A run that has its answer gives it again.

        Raises:
            LeaseHeld: Somebody works on it, here or in another process.
            UsageError: There is nothing on record, or the context is another.
        """
        if self._journal is None:
            raise UsageError("without a journal nothing is on record; make the RLM with journal=")
        return await self._ask(run, prompt, root_prompt, on_iteration)

    async def _ask(
        self, run: str, prompt: Any, root_prompt: str | None, on_iteration: OnIteration | None
    ) -> RLMChatCompletion:
        if self._logger is not None:
            self._logger.clear_iterations()
        if self._persistent:
            kept = await self._opened(run)
            async with kept.turn():
                return await self._ask_run(kept.run, prompt, root_prompt, on_iteration)
        async with AsyncExitStack() as stack:
            return await self._ask_run(await self._enter(stack, run), prompt, root_prompt, on_iteration)

    async def _ask_run(
        self, run: RlmRun, prompt: Any, root_prompt: str | None, on_iteration: OnIteration | None
    ) -> RLMChatCompletion:
        def ask(context: Context) -> Awaitable[RLMChatCompletion]:
            seconds, logger = self._max_timeout, self._logger
            return run.ask(prompt, root_prompt, context, seconds=seconds, on_iteration=on_iteration, logger=logger)

        return await trace_completion(self._setup.tracer, run.id, self._context, ask)

    async def _enter(self, stack: AsyncExitStack, run: str) -> RlmRun:
        """A run with everything that it needs, until the stack is closed."""
        watcher = None if self._on_event is None else SafeWatcher(self._on_event)
        setup = replace(self._setup, journal=await journal_of(self._journal, stack), watcher=watcher)
        sandbox = await self._environment.enter(stack, setup.state)
        spend = Spending(self._max_budget, self._max_tokens, clock=setup.clock)
        return await stack.enter_async_context(opened(setup, run, sandbox, spend))

    async def _opened(self, run: str) -> PersistentRun:
        async with self._opening:  # two that ask at once have one REPL
            if self._kept is None:
                async with AsyncExitStack() as stack:
                    entered = await self._enter(stack, run)
                    self._kept = PersistentRun(entered, stack.pop_all())
            return self._kept

    # ── ending ───────────────────────────────────────────────────────────────────────

    async def aclose(self) -> None:
        """End the REPL that was kept, and let go of the models that were made here."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.aclose()
        await self._backends.aclose()


@dataclass(frozen=True, slots=True)
class PersistentRun:
    """The run of a persistent `RLM`, in the loop that it was opened in."""

    run: RlmRun
    stack: AsyncExitStack
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def turn(self) -> asyncio.Lock:
        """Held while one question is answered.

        Raises:
            UsageError: This is not the loop that the REPL works in.
        """
        if asyncio.get_running_loop() is not self.loop:
            raise UsageError(
                "this REPL works in another event loop; use the blocking methods or the async ones, not both"
            )
        return self.lock

    async def aclose(self) -> None:
        await self.stack.aclose()


async def journal_of(given: Journal | Path | None, stack: AsyncExitStack) -> Journal | None:
    if given is None or not isinstance(given, Path):
        return given
    from handrail.journal.journal import SqliteJournal  # SQLite and cryptography load when they are used

    return await stack.enter_async_context(await SqliteJournal.open(given))


async def trace_completion(
    tracer: Tracer | None, run: str, context: Context, ask: Callable[[Context], Awaitable[RLMChatCompletion]]
) -> RLMChatCompletion:
    """One completion as one span, so that what makes its REPL ready is in the same tree as the rest."""
    if tracer is None:
        return await ask(context)
    with tracer.call(ToolCall(run, RLM_CALL, {}), context) as span:
        completion = await ask(msgspec.structs.replace(context, trace=span.parent))
        span.settled(_result(completion), RLM_CALL)
        return completion


def _result(completion: RLMChatCompletion) -> ToolResult:
    if completion.error is None:
        return ToolResult(completion.run, RLM_CALL, completion.response)
    kind = completion.error_type or "failed"
    problem = Problem(kind, completion.error)
    return ToolResult(completion.run, RLM_CALL, completion.response, _OUTCOMES.get(kind, "failed"), error=problem)
