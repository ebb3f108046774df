"""A conversation with a model and tools: `Session(provider=llm, tools=[...]).ask(prompt)`.

It keeps what was said, what ran and the proof of it. The runner does the work; the
blocking methods wait for the async ones in a loop of their own, so that they work
inside a running loop too.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, overload

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.dependencies import Deps
from handrail.core.display import browser_safe_text
from handrail.core.errors import LimitExceeded, ModelError, ToolFailed, UsageError
from handrail.core.events import Emit, Event, ignore_event
from handrail.core.ids import new_id
from handrail.core.messages import Content, Conversation, UserMessage
from handrail.core.model_request import ToolChoice
from handrail.core.ports import Journal, Model, SystemClock, writes_code
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.execute.approvers import AnyApprover, as_approver
from handrail.journal.in_memory import InMemoryJournal
from handrail.run.agents import Agent
from handrail.run.answers import answer_text, checked_type, read_answer, results_of_tools
from handrail.run.code.code_mode import CodeSettings
from handrail.sandbox.port import create_sandbox
from handrail.sessions.blocking import Closable, LazyPortal
from handrail.sessions.llm import LLM
from handrail.sessions.replies import AsyncSessionStream, SessionReply, SessionStream
from handrail.sessions.session_engine import SessionEngine, SessionOptions, SessionSetup
from handrail.sessions.store.conversations import ConversationStore
from handrail.sessions.tool_forms import choice_of
from handrail.tools.answer_type import AnswerType
from handrail.tools.ensemble import Ensemble
from handrail.tools.masking import masked_messages
from handrail.tools.registry import ToolLike, flattened_tools, registered

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from handrail.journal.auditing import AuditReport, Receipt
    from handrail.sessions.shared_models import NamedModel


class SessionProof(Struct, frozen=True):
    """The record of one run in a journal, on disk or in memory."""

    journal: Path | InMemoryJournal
    run: str

    @property
    def path(self) -> Path | None:
        """The file of the journal; None while it is kept in memory."""
        return self.journal if isinstance(self.journal, Path) else None

    def verify(self) -> AuditReport:
        """Check the whole journal: every entry, body and signature, nothing believed."""
        from handrail.journal.auditing import audit  # SQLite and cryptography load when they are used

        return audit(self.journal)

    def export(self, folder: str | Path) -> Path:
        """Write the run as a proof bundle, for others to verify."""
        from handrail.journal.auditing import export_run

        return export_run(self.journal, self.run, folder)

    def receipt(self, call_id: str) -> Receipt:
        from handrail.journal.auditing import prove

        return prove(self.journal, call_id, run=self.run)


Said = str | Iterable[str | Content] | None
Choice = ToolChoice | Mapping[str, Any] | str
OnEvent = Callable[[Event], object]
"""A plain or an async function; what a plain one returns is ignored."""


T = TypeVar("T")

_TYPED = "ask(…, returns=T) for the type of an answer"
_MEANT = {
    "model": "the model first: Session('openai:gpt-5', …)",
    "llm": "the model first: Session(llm, …)",
    "instructions": "system_prompt=",
    "system": "system_prompt=",
    "output_type": _TYPED,
    "result_type": _TYPED,
    "response_model": _TYPED,
    "returns": _TYPED,
    "toolsets": "tools=, which takes groups of tools too",
    "usage_limits": "limits=Limits(…)",
    "temperature": "create_llm('…', temperature=…) for the settings of the model",
    "max_tokens": "create_llm('…', max_tokens=…) for the settings of the model",
    "handoffs": "Session(Agent(…, handoffs=[…]))",
}
"""What to write for the names that other libraries use."""


class Session(Closable, Generic[Deps]):
    """A model, tools, and the conversation so far. Close it, or use it in a `with` or `async with` block.

    Without a journal, the record is kept in memory as long as the session is open. A side effect waits for
    the approver; without one, the model is told that a person must confirm it. `Session[Shop]` is one whose tools
    get a `Shop` besides their arguments.
    """

    @overload
    def __init__(
        self: Session[None],
        provider: LLM | Model | Agent | str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[ToolLike[None]] = (),
        journal: Journal | str | Path | None = None,
        approver: AnyApprover | None = None,
        deps: None = None,
        code: bool | CodeSettings | Literal["service"] = False,
        **options: Unpack[SessionOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        provider: LLM | Model | Agent | str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[ToolLike[Deps]] = (),
        journal: Journal | str | Path | None = None,
        approver: AnyApprover | None = None,
        deps: Deps,
        code: bool | CodeSettings | Literal["service"] = False,
        **options: Unpack[SessionOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        provider: LLM | Model | Agent | str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[ToolLike[Deps]] = (),
        journal: Journal | str | Path | None = None,
        approver: AnyApprover | None = None,
        deps_type: type[Deps],
        code: bool | CodeSettings | Literal["service"] = False,
        **options: Unpack[SessionOptions],
    ) -> None: ...

    def __init__(
        self,
        provider: LLM | Model | Agent | str,
        *,
        system_prompt: str | None = None,
        tools: Iterable[Any] = (),
        journal: Journal | str | Path | None = None,
        approver: AnyApprover | None = None,
        deps: Any = None,
        deps_type: Any = None,
        code: bool | CodeSettings | Literal["service"] = False,
        **options: Unpack[SessionOptions],
    ) -> None:
        """
        Args:
            provider: The name of a model, as `create_llm` takes it, which open sessions of that name share with its
                connections; a model; an `LLM` that is its owner's to close; or an `Agent`, which brings its own system
                prompt, tools and limits.
            system_prompt: What the model is told first.
            tools: Functions, tools, ensembles and registered sets.
            journal: An open one, or the file of one. Without it the record is kept in memory.
            approver: Decides about side effects: a function, an object with `decide(question)`, or "terminal".
            deps: What the tools get besides their arguments, as `Invocation.deps`. No model sees it, and nothing of it
                is recorded or saved.
            deps_type: The type of what each prompt gives them instead, where the session has none to give.
            code: The model calls tools from Python that it writes, in a sandbox here (True, or a `CodeSettings`)
                or in that of the service ("service").
            options: How calls are treated and how far a run may go, as `policy` and `limits`; other parts of an
                executor.

        Raises:
            UsageError: Something cannot be used as it is, or a tool needs other dependencies.
        """
        known = keyword_names(Session) | SessionOptions.__annotations__.keys()
        check_keyword_names("Session", options, known, _MEANT)
        if isinstance(provider, Agent):
            if tools or system_prompt is not None:
                raise UsageError(f"the agent {provider.name!r} has its own tools and system prompt; give them to it")
            if provider.as_team() is not None and code is not False:
                raise UsageError("an agent that hands over cannot call tools from code; leave code= or handoffs= out")
            system_prompt, tools = provider.system_prompt, provider.all_tools
            options = _options_of(provider, options)
        self._named = _named_model(provider) if isinstance(provider, str) else None
        """The model, if it was given by its name and so is shared with other sessions."""
        self._provider = _model_of(provider if self._named is None else self._named.llm)
        if run := options.get("context", Context()).run:
            raise UsageError(f"a session has its own run and cannot be {run!r}; leave it out of the context")
        self._begin()
        items = tuple(flattened_tools(tools))
        whole = registered(*items)
        whole.check_deps(deps, deps_type)  # what is wrong is said now, and not when the first prompt comes
        if not any(isinstance(item, Ensemble) for item in items):  # whose tools are known when they are prepared
            items = (whole,)
        self._closes_model = self.llm is not provider and not isinstance(provider, Agent)
        """Whether the model is its to close: not that of an `LLM` that it was given, of an agent or of a fork."""
        self._setup = SessionSetup(
            model=self.llm.model,
            tools=items,
            defaults=self.llm.defaults,
            journal=Path(journal) if isinstance(journal, str) else journal,
            # The executor makes the approver at the terminal: it knows the tools.
            approver=approver if approver == "terminal" else as_approver(approver),
            deps=deps,
            deps_type=deps_type,
            options=options,
            code=_checked(code, self.llm.model),
            agent=provider if isinstance(provider, Agent) else None,
        )
        self._new_id = options.get("new_id", new_id)
        self._clock = options.get("clock", SystemClock())
        self.id: str = self._new_id("conversation")
        self.conversation: Conversation = Conversation()
        if system_prompt is not None:
            self.conversation = self.conversation.supervised(system_prompt, self._clock.now())
        self._checkpoints: list[int] = []
        self._overriding: tuple[tuple[Deps], ...] = ()

    def _begin(self) -> None:
        """With nothing opened yet."""
        self.llm: LLM = self._provider if isinstance(self._provider, LLM) else LLM(self._provider)
        self.portal: LazyPortal = self.llm.portal
        self._engine: SessionEngine | None = None
        self._opening = asyncio.Lock()
        self._finalizer: weakref.finalize[..., Session[Deps]] | None = None
        self._store: tuple[Path, ConversationStore] | None = None
        self._schema_type: AnswerType[Any] | None = None

    # ── asking ───────────────────────────────────────────────────────────────────────

    @overload
    def ask(
        self,
        prompt: Said = None,
        *,
        returns: None = None,
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[str]: ...

    @overload
    def ask(
        self,
        prompt: Said = None,
        *,
        returns: TypeForm[T],
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[T]: ...

    def ask(
        self,
        prompt: Said = None,
        *,
        returns: Any = None,
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[Any]:
        """Ask, run the tools that the model calls, and go on until it answers. Without a prompt, go on from here.

        Args:
            prompt: Words, or words and images.
            returns: A type: the answer is a value of it, `reply.value`. An answer that does not fit goes back to the
                model with the reasons, `Limits.wrong_answers` times at most.
            tool_choice: "auto", "none", "required" or the name of a tool, for the first reply.
            on_event: A function that is called with each event as it happens: a plain one in the caller's thread, an
                async one in the loop behind the session.
            deps: What the tools get besides their arguments, for this prompt, in place of what the session has.

        Raises:
            InvalidAnswer: No answer was of the type asked for, or by the `response_schema` of the model.
            ModelError: The model gave no usable reply. The prompt is taken back if nothing was done for it.
            ToolFailed: Under `fail_fast`; the conversation is as it was before the prompt.
            LimitExceeded: Under `on_limit="error"`; the conversation has everything up to there.
        """
        if on_event is None or iscoroutinefunction(on_event):
            return self.portal.call(
                self.ask_async(prompt, returns=returns, tool_choice=tool_choice, on_event=on_event, deps=deps)
            )
        return self.portal.call_listening(
            lambda emit: self._run_prompt(prompt, tool_choice, emit, returns, deps), on_event
        )

    @overload
    async def ask_async(
        self,
        prompt: Said = None,
        *,
        returns: None = None,
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[str]: ...

    @overload
    async def ask_async(
        self,
        prompt: Said = None,
        *,
        returns: TypeForm[T],
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[T]: ...

    async def ask_async(
        self,
        prompt: Said = None,
        *,
        returns: Any = None,
        tool_choice: Choice = "auto",
        on_event: OnEvent | None = None,
        deps: Deps | None = None,
    ) -> SessionReply[Any]:
        """`ask` for async code, with the same arguments."""
        emit = ignore_event if on_event is None else _emitting(on_event)
        return await self._run_prompt(prompt, tool_choice, emit, returns, deps)

    @overload
    def stream(
        self, prompt: Said = None, *, returns: None = None, tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> SessionStream[str]: ...

    @overload
    def stream(
        self, prompt: Said = None, *, returns: TypeForm[T], tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> SessionStream[T]: ...

    def stream(
        self, prompt: Said = None, *, returns: Any = None, tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> SessionStream[Any]:
        """Ask, and give the events as they happen: pieces of text, calls, results, progress.

        The stream's `text_stream` has only the text, and its `reply` is what `ask` would have returned.
        The arguments are those of `ask`.
        """
        return SessionStream(
            self.stream_async(prompt, returns=returns, tool_choice=tool_choice, deps=deps), self.portal
        )

    @overload
    def stream_async(
        self, prompt: Said = None, *, returns: None = None, tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> AsyncSessionStream[str]: ...

    @overload
    def stream_async(
        self, prompt: Said = None, *, returns: TypeForm[T], tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> AsyncSessionStream[T]: ...

    def stream_async(
        self, prompt: Said = None, *, returns: Any = None, tool_choice: Choice = "auto", deps: Deps | None = None
    ) -> AsyncSessionStream[Any]:
        """`stream` for async code, with the same arguments."""
        return AsyncSessionStream(lambda emit: self._run_prompt(prompt, tool_choice, emit, returns, deps))

    async def _run_prompt(
        self, prompt: Said, tool_choice: Choice, emit: Emit, returns: Any = None, deps: Any = None
    ) -> SessionReply[Any]:
        answer = self._answer_type(returns)
        content = None if prompt is None else prompt_content(prompt)
        engine = await self._opened()
        if self._overriding:
            (deps,) = self._overriding[-1]
        engine.tools.check_deps(self._setup.deps if deps is None else deps)
        async with engine.prompts.turn():
            self.conversation = before = engine.briefed(self.conversation)
            start = len(before)
            if content is not None:
                self._checkpoints.append(start)
                self.conversation = self.conversation.say(*content, at=self._clock.now())
            try:
                choice = choice_of(tool_choice)
                said = self.conversation
                self.conversation = await engine.run(said, emit, choice, self._follow, answer, deps, before)
            except (ToolFailed, ModelError, LimitExceeded) as error:
                self._after(error, start)
                raise
            return self._reply(start, answer, typed=returns is not None)

    def _answer_type(self, returns: Any) -> AnswerType[Any] | None:
        """What the answer is checked by: the type that is asked for, or the schema that the model was set up with."""
        if returns is None and (schema := self._setup.defaults.response_schema) is not None:
            if self._schema_type is None:
                self._schema_type = AnswerType.of_schema(schema)
            return self._schema_type
        return checked_type(returns)

    def _reply(self, start: int, answer: AnswerType[Any] | None, *, typed: bool) -> SessionReply[Any]:
        said = self.conversation
        results = self._results(said, start)
        if answer is None:
            text = Conversation(said.messages[start:]).text
            return SessionReply(text, said, text, results, start)
        text = answer_text(said.messages)
        return SessionReply(text, said, read_answer(said.messages, answer) if typed else text, results, start)

    def _follow(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def _after(self, error: ToolFailed | ModelError | LimitExceeded, start: int) -> None:
        """What is kept of a prompt that ended in an error: everything, unless that is worth nothing."""
        reached: Conversation = error.conversation if error.conversation is not None else self.conversation
        nothing_done = not self._results(reached, start)
        if isinstance(error, ToolFailed) or (isinstance(error, ModelError) and nothing_done):
            self.rollback(start)
        else:
            self.conversation = reached

    def _results(self, conversation: Conversation, start: int) -> tuple[ToolResult, ...]:
        tools = () if self._engine is None else self._engine.tools
        return results_of_tools(conversation.messages[start:], tools)

    @contextlib.contextmanager
    def override(self, *, deps: Deps) -> Iterator[None]:
        """For tests: in the `with` block the tools get these dependencies, whatever the session or a prompt gives."""
        given = (deps,)
        self._overriding = (*self._overriding, given)
        try:
            yield
        finally:  # another thread or task may have begun a block meanwhile, and not ended it
            self._overriding = tuple(each for each in self._overriding if each is not given)

    # ── what was said ────────────────────────────────────────────────────────────────

    @property
    def setup(self) -> SessionSetup:
        """Everything about it but what was said: what other sessions are made of that share its model and tools."""
        return self._setup

    @property
    def run(self) -> str | None:
        """The name of its run in the record; None before the first prompt."""
        return None if self._engine is None else self._engine.run_id

    @property
    def agent(self) -> str | None:
        """The name of the agent that speaks next; None for a session without agents."""
        first = self._setup.agent
        if first is None:
            return None
        team = first.as_team()
        return first.name if team is None else team.active(self.conversation.messages).name

    @property
    def proof(self) -> SessionProof:
        """The record of this session.

        Raises:
            UsageError: Nothing was asked yet, the session is closed, or its journal is one of your own kind.
        """
        if self._engine is None:
            raise UsageError("there is no record: nothing was asked yet, or the session is closed")
        if (journal := self._engine.provable) is None:
            raise UsageError("the journal of this session is of another kind; ask the journal itself")
        return SessionProof(journal, self._engine.run_id)

    @property
    def checkpoint(self) -> int:
        """Where the conversation is now, for `rollback`."""
        return len(self.conversation)

    def rollback(self, checkpoint: int) -> None:
        """Go back to a checkpoint. What tools did since then stays done, and stays on record."""
        self.conversation = self.conversation.upto(checkpoint)
        self._checkpoints = [each for each in self._checkpoints if each < checkpoint]

    def undo(self) -> str:
        """Take back the last prompt and what followed, and return its text, to be edited.

        Raises:
            UsageError: There is none.
        """
        if not self._checkpoints:
            raise UsageError("there is nothing to undo")
        start = self._checkpoints[-1]
        said = self.conversation.messages[start]
        self.rollback(start)
        return said.text if isinstance(said, UserMessage) else ""

    def fork(self) -> Session[Deps]:
        """Another session that goes on from here by itself, with the same model and tools and a run of its own."""
        forked = copy(self)
        forked._begin()
        forked._closes_model, forked._named = False, None
        forked.id = self._new_id("conversation")
        forked._checkpoints = list(self._checkpoints)
        return forked

    def save(self, folder: str | Path, *, title: str | None = None) -> str:
        """Keep the conversation in a folder of conversations, without the secrets of its calls; its id there."""
        place = Path(folder)
        tools = registered(*self._setup.tools) if self._engine is None else self._engine.tools
        masked = Conversation(masked_messages(self.conversation.messages, tools))
        if self._store is None or self._store[0] != place:
            self._store = (place, ConversationStore(place, clock=self._clock, new_id=self._new_id))
        self._store[1].save(self.id, masked, title=title)
        return self.id

    def load(self, folder: str | Path, id: str) -> Self:
        """Go on with a conversation that was saved, in place of this one: `Session(provider=llm).load(folder, id)`."""
        store = ConversationStore(Path(folder), clock=self._clock, new_id=self._new_id)
        self.conversation = store.load(id)
        self._checkpoints = _prompts(self.conversation)
        self._store, self.id = (Path(folder), store), id
        return self

    # ── life ─────────────────────────────────────────────────────────────────────────

    async def _opened(self) -> SessionEngine:
        async with self._opening:
            if self._engine is None:
                if self._named is not None:
                    self._named.use_again()
                self._engine = await SessionEngine.open(self._setup, self._new_id("run"))
                if self.portal.is_here():
                    self._finalizer = weakref.finalize(self, _shut, self.portal, self._engine)
            return self._engine

    async def aclose(self) -> None:
        """End the run and let go of the journal. A journal that was given stays open.

        A prompt that is being answered ends with a `UsageError`; each call that was made for it has its result.
        """
        engine = self._engine
        if engine is not None:
            engine.prompts.check_closable()
            self._engine = None
        if self._finalizer is not None:
            self._finalizer.detach()
        try:
            if engine is not None:
                await engine.aclose()
        finally:
            if self._named is not None:
                await self._named.aclose()
            elif self._closes_model:
                await self.llm.aclose()

    def close(self) -> None:
        """End the run, and let go of the journal and of a model that the session made."""
        self.portal.call(self.aclose())
        if self._closes_model or self.llm is not self._provider:
            self.portal.close()


def _named_model(name: str) -> NamedModel:
    from handrail.sessions.shared_models import NamedModel  # the services load when one is asked for by its name

    return NamedModel(name)


def _checked(code: bool | CodeSettings | Literal["service"], model: Model) -> CodeSettings | Literal["service"] | None:
    """
    Raises:
        UsageError: There is no such way, or the model writes no code.
        SandboxUnavailable: This machine cannot have the sandbox.
    """
    if code is False or code == "service":
        return code or None
    if code is not True and not isinstance(code, CodeSettings):
        raise UsageError(f"code is True, 'service' or a Code(…), not {code!r}")
    if not writes_code(model):
        raise UsageError(f"the model {model.name!r} is too small to write code; leave code= out, or take a larger one")
    found = CodeSettings() if code is True else code
    create_sandbox(found.sandbox, found.limits)  # what is missing is said now; nothing is started yet
    return found


def _model_of(provider: LLM | Model | Agent | str) -> LLM | Model:
    assert not isinstance(provider, str)
    if not isinstance(provider, Agent):
        return provider
    return provider.provider if isinstance(provider.provider, LLM) else provider.model


def _options_of(agent: Agent, options: SessionOptions) -> SessionOptions:
    """The options of a session with an agent. Limits that the session is given narrow those of the agent."""
    context = options.get("context", Context())
    return {
        **options,
        "limits": agent.limits.within(options.get("limits", agent.limits)),
        "context": replace(context, agents=(*context.agents, agent.name)),
    }


def prompt_content(prompt: Any) -> tuple[str | Content, ...]:
    """What a prompt says, in its parts.

    Raises:
        UsageError: It is no prompt, or no model service could be sent it, now or later in the conversation.
    """
    content: tuple[Any, ...] = (prompt,) if isinstance(prompt, str) else ()
    if isinstance(prompt, Iterable) and not isinstance(prompt, str | bytes | Mapping):
        content = tuple(prompt)
    wrong = [each for each in content if not isinstance(each, str | Content)]
    if wrong or not content:
        raise UsageError(f"a prompt is text, or a list of texts, Media(…) and Text(…), not {(wrong or [prompt])[0]!r}")
    if any(isinstance(each, str) and browser_safe_text(each) != each for each in content):
        raise UsageError(
            "the prompt has half of a surrogate pair, as of an emoji that was cut, and no model service takes that; "
            "write prompt.encode('utf-8', 'replace').decode()"
        )
    return content


def _prompts(conversation: Conversation) -> list[int]:
    return [index for index, message in enumerate(conversation.messages) if isinstance(message, UserMessage)]


def _emitting(on_event: OnEvent) -> Emit:
    async def emit(event: Event) -> None:
        done = on_event(event)
        if isawaitable(done):
            await done

    return emit


def _shut(portal: LazyPortal, engine: SessionEngine) -> None:
    """For a session that nobody closed."""
    # In the loop itself nobody can wait for it, and while the interpreter ends no thread can be had. Every entry is
    # kept all the same; only the run's end or its signature may be missing.
    with contextlib.suppress(UsageError, RuntimeError):
        portal.call(engine.aclose())
