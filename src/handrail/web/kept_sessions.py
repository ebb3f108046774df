"""The sessions of a web application: each found by its id and its owner, all with one model, one set of tools and one
journal.

A session is a run of the journal. What is in memory of it may be forgotten at any time that nobody uses it, and is
read again when it is opened next, also by another process.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.closing import ClosedOnExit
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.dependencies import Deps
from handrail.core.errors import UsageError
from handrail.core.events import RunResumed, RunStarted
from handrail.core.ids import new_id, run_and_above
from handrail.core.messages import Conversation
from handrail.core.ports import Approver, SystemClock
from handrail.core.single_flight import SingleFlight
from handrail.execute.approvers import as_approver
from handrail.sessions.session import Session
from handrail.sessions.session_engine import SessionEngine
from handrail.tools.answer_type import AnswerType
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.schema.validator import Validator
from handrail.web.errors import InvalidSessionId, SessionNotFound, TooManySessions
from handrail.web.kept_session import WebSession, run_of

_LONGEST_ID = 200


class WebSessions(ClosedOnExit):
    """Keeps the sessions of users by id. Use it in an `async with` block, or as `FastAPI(lifespan=sessions.lifespan)`.

    Each session has the model, tools, system prompt, limits and journal of the `Session` that this is made of, and is a
    run of its own in that journal. Without a journal, sessions are kept until the program ends, in a temporary file.
    """

    def __init__(
        self,
        session: Session[Deps],
        *,
        deps: Callable[[str], Deps] | None = None,
        most: int = 1000,
        answer_within: float = 600.0,
        reasoning: bool = False,
    ) -> None:
        """
        Args:
            session: What every session is like. Nothing is asked in it, and it is closed with this.
            deps: What the tools of a user get besides their arguments, by the id of the user. Without it they get what
                `session` has.
            most: How many sessions may be in memory. The one that was unused the longest is forgotten first, and read
                again from the journal when it is opened.
            answer_within: Seconds that a call waits for its question to be answered. Then the turn pauses, and goes on
                when the question is answered.
            reasoning: Whether browsers are told what the model thinks aloud.
        """
        if not isinstance(session, Session):
            raise UsageError("give a session that the others are like: WebSessions(Session(llm, tools=tools))")
        self._prototype = session
        self._deps = deps
        self.beginning: Conversation = session.conversation
        """What every session begins with."""
        schema = session.setup.defaults.response_schema
        self.answer_type: AnswerType[Any] | None = None if schema is None else AnswerType.of_schema(schema)
        """What every answer is checked by, if the model was set up with a schema for them."""
        self.answer_within = answer_within
        self.reasoning = reasoning
        self.is_closed: bool = False
        options = session.setup.options
        self.now: Callable[[], int] = options.get("clock", SystemClock()).now
        self._new_id = options.get("new_id", new_id)
        self._most = most
        self._sessions: BoundedMemory[str, WebSession] = BoundedMemory(lru=True)
        """By the names of their runs."""
        self._held: WeakValueDictionary[str, WebSession] = WeakValueDictionary()
        """The same, and those that a request still has although they were forgotten: a run has one session here."""
        self._finding: SingleFlight[str, WebSession | None] = SingleFlight()
        self._engine: SessionEngine | None = None
        self._opening = asyncio.Lock()
        self._folder: Path | None = None
        if deps is None:
            self.tools.check_deps(session.setup.deps)  # what a `deps_type` promises is missing

    # ── opening ──────────────────────────────────────────────────────────────────────

    async def create(self, *, owner: str) -> WebSession:
        """A new session, with an id that nobody can guess.

        Raises:
            TooManySessions: As many are in use as may be open at once.
        """
        return await self.open(self._new_id("session"), owner=owner, create=True)

    async def open(self, id: str, *, owner: str, create: bool = False) -> WebSession:
        """The session of this id. It is looked up in memory, then in the journal.

        Args:
            id: What `create` gave, or an id of your own.
            owner: Whose session it is, as your sign-in says. A session of somebody else is not found.
            create: Begin it if there is none.

        Raises:
            SessionNotFound: This owner has no such session.
            TooManySessions: As many are in use as may be open at once.
        """
        if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID or not id.isprintable():
            raise InvalidSessionId(f"A session id has 1 to {_LONGEST_ID} printable characters.")
        if not isinstance(owner, str) or not owner:
            raise UsageError("owner is the id of the user whose session it is; it must not be empty")
        run = run_of(id)
        found = self._sessions.get(run)
        if found is None:
            found, _ = await self._finding.share(run, lambda: self._find(id, run, owner if create else None))
        if found is None and create:  # whoever asked at the same time did not want a new one
            found, _ = await self._finding.share(run, lambda: self._find(id, run, owner))
        if found is None or found.owner != owner:
            raise SessionNotFound
        return found

    async def _find(self, id: str, run: str, create_for: str | None) -> WebSession | None:
        if (known := self._sessions.get(run)) is not None:
            return known
        if (held := self._held.get(run)) is not None:
            return self._keep(held)
        engine = await self.engine()
        history = await engine.journal.history(run)
        if not history and create_for is not None:
            await WebSession(self, id, create_for).begin_record(engine)
            history = await engine.journal.history(run)  # another process may have been quicker
        first = next((event for event in history if isinstance(event, RunStarted | RunResumed)), None)
        if first is None:
            return None
        session = WebSession(self, id, first.principal)
        await session.read(engine.journal, history)
        return self._keep(session)

    def _keep(self, session: WebSession) -> WebSession:
        self._make_room()
        self._sessions[session.run] = self._held[session.run] = session
        return session

    def _make_room(self) -> None:
        if len(self._sessions) < self._most:
            return
        for run, session in self._sessions.items():
            if not session.is_needed:
                self._sessions.pop(run, None)
                return
        raise TooManySessions

    # ── what its sessions share ──────────────────────────────────────────────────────

    async def engine(self) -> SessionEngine:
        async with self._opening:
            if self.is_closed:
                raise UsageError("these sessions are closed; the program is about to end")
            if self._engine is None:
                setup = self._prototype.setup
                journal = setup.journal
                if journal is None:
                    self._folder = Path(tempfile.mkdtemp(prefix="handrail-"))
                    journal = self._folder / "journal.db"
                first = as_approver(setup.approver)
                setup = replace(setup, journal=journal, approver=_UserApprover(self, first), on_wait="pause")
                self._engine = await SessionEngine.open(setup, self._new_id("run"))
            return self._engine

    @property
    def tools(self) -> RegisteredTools:
        return registered(*self._prototype.setup.tools) if self._engine is None else self._engine.executor.tools

    def deps_of(self, owner: str) -> Any:
        """What the tools get besides their arguments in a turn of this user.

        Raises:
            UsageError: It is not of the type that a tool declares.
        """
        if self._deps is None:
            return None
        deps = self._deps(owner)
        self.tools.check_deps(deps)
        return deps

    def about(self, tool: str) -> str:
        """What a tool says of itself; nothing if it is gone."""
        return self.tools.find(tool).definition.description if tool in self.tools else ""

    def problems(self, tool: str | None, arguments: Mapping[str, Any], form: dict[str, Any] | None) -> tuple[str, ...]:
        """Why arguments do not fit a tool, or the form that is asked for."""
        if form is not None:
            return tuple(Validator(form, "the form", root="(answer)").problems(dict(arguments)))
        if tool is None or tool not in self.tools:
            return ()
        return tuple(self.tools.find(tool).validator.problems(dict(arguments)))

    def working_on(self, run: str) -> WebSession | None:
        """The session whose turn this run is, or is below as that of an agent, if one is under way here."""
        found = (self._held.get(each) for each in run_and_above(run))
        return next((session for session in found if session is not None and session.is_working), None)

    # ── life ─────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        """The `lifespan` of a FastAPI or Starlette application."""
        async with self:
            yield

    async def aclose(self) -> None:
        """End every turn and every stream of events, and let go of the journal. Turns can be taken up later."""
        async with self._opening:
            self.is_closed = True
            engine, self._engine = self._engine, None
        try:
            await asyncio.gather(*(session.close() for session in list(self._held.values())))
            if engine is not None:
                await engine.aclose()
        finally:
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            await self._prototype.aclose()


class _UserApprover:
    """Asks the approver of the application first, and then the user whose session it is."""

    def __init__(self, sessions: WebSessions, first: Approver | None) -> None:
        self._sessions = sessions
        self._first = first

    async def decide(self, question: Confirmation) -> Decision:
        if self._first is not None:
            decision = await self._first.decide(question)
            if not isinstance(decision, Defer):
                return decision
        runs = (question.run,) if question.meant is None else question.meant
        found = [session for run in runs if (session := self._sessions.working_on(run)) is not None]
        # Where a server does not say for which of several runs it asks, no user may answer for another.
        return await found[0].ask(question) if len(found) == 1 and len(runs) == 1 else Defer()
