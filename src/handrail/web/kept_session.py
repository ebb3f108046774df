"""One session of a user: its turns go on when nobody watches, and any number of browsers follow them.

What was said is in the journal. In memory are the latest events, so that a browser
that was cut off gets what it missed, and the questions that wait for an answer.

    idle          nothing happens; a prompt begins a turn
    working       a turn is under way
    waiting       a person has to answer a question, in the middle of a turn or after it has paused
    interrupted   the program ended in the middle of a turn, or it failed: `start()` without a prompt goes on
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.context import Context, Principal
from handrail.core.display import browser_safe_text
from handrail.core.errors import JournalError, LeaseHeld, UsageError
from handrail.core.event_feed import EventFeed
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Event, Recorded, TextDelta
from handrail.core.first_answer import append_answer
from handrail.core.ids import nested_id, new_id
from handrail.core.messages import (
    AssistantMessage,
    Content,
    Conversation,
    InvocationMessage,
    ResultMessage,
    UserMessage,
)
from handrail.core.ports import Journal
from handrail.core.secret_pointers import restore_masked
from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit
from handrail.run.answers import answer_text, ends_with_answer_call
from handrail.run.history import conversation_of, unanswered_calls
from handrail.sessions.session import Choice, Said, prompt_content
from handrail.sessions.session_engine import SessionEngine
from handrail.sessions.tool_forms import choice_of
from handrail.web.errors import QuestionClosed, SessionBusy, SessionNotFound, WebSessionError
from handrail.web.events import (
    TURN_ENDS,
    WebEvent,
    asked_question,
    browser_event,
    browser_messages,
    failure,
    recorded_question,
)

if TYPE_CHECKING:
    from handrail.web.kept_sessions import WebSessions

logger = logging.getLogger(__name__)

State = Literal["idle", "working", "waiting", "interrupted"]
_PAUSE_SECONDS = 2.0
"""The time for a turn to pause at its questions when the program ends."""
_SHOWN = 200
"""Messages of a snapshot."""


@dataclass(frozen=True, slots=True)
class _OpenQuestion:
    """A question without an answer."""

    shown: dict[str, Any]
    tool: str | None
    """The tool; None if the call is that of an agent below, whose tools are not known here."""
    question: Confirmation | None = None
    """The question; None for one that was read from the record."""
    word: asyncio.Future[_Answer] | None = None
    """What the call waits for; None once the turn has paused."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a person answered."""

    allow: bool
    arguments: dict[str, Any] | None = None
    reason: str = ""


class WebSession:
    """A session that `WebSessions` keeps. It belongs to one owner and to one event loop."""

    def __init__(self, sessions: WebSessions, id: str, owner: str) -> None:
        self.id = id
        self.run: str = run_of(id)
        """The name of its run in the journal."""
        self.owner = owner
        self.conversation: Conversation = Conversation()
        """Everything said so far."""
        self._sessions = sessions
        self._feed = EventFeed(WebEvent, sessions.now())
        self._open: dict[str, _OpenQuestion] = {}
        self._given: dict[str, _Answer] = {}
        """Answers to questions that the turn under way will ask again."""
        self._is_busy = False
        self._turn: asyncio.Task[None] | None = None
        self._live: list[str] = []
        """What the model has said of the reply under way."""

    # ── what it is ───────────────────────────────────────────────────────────────────

    @property
    def is_working(self) -> bool:
        """Whether a turn is under way in this process."""
        return self._is_busy

    @property
    def is_needed(self) -> bool:
        """Whether something would be lost if it were forgotten now."""
        return self._is_busy or self._feed.followers > 0

    @property
    def state(self) -> State:
        if self._open:
            return "waiting"
        if self._is_busy:
            return "working"
        messages = self.conversation.messages
        if not messages or (ends_with_answer_call(messages) and not self._unanswered()):
            return "idle"
        cut_off = isinstance(messages[-1], UserMessage | ResultMessage) or self._unanswered()
        return "interrupted" if cut_off else "idle"

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The questions that wait for an answer, as a browser shows them."""
        return [each.shown for each in self._open.values()]

    def snapshot(self) -> WebEvent:
        """The state of the session at this moment, for a page that is loaded."""
        messages = self.conversation.messages
        shown = browser_messages(messages[-_SHOWN:], self._sessions.tools)
        told = {
            "session": self.id,
            "state": self.state,
            "messages": shown,
            "questions": self.questions,
            "text": "".join(self._live),
        }
        return WebEvent(n=self._feed.cursor, type="snapshot", data=told)

    def events(self, after: str | int | None = None) -> WebSessionEvents:
        """The events of the session from now on, of this turn and of later ones. A snapshot comes first.

        Args:
            after: The id of the last event that the browser has, as its header `Last-Event-ID` says. Then what it
                missed comes first, or a snapshot if that is not remembered any more.
        """
        return WebSessionEvents(self, _event_number(after))

    # ── what its user does ───────────────────────────────────────────────────────────

    async def start(self, prompt: Said = None, *, tool_choice: Choice = "auto") -> WebSessionEvents:
        """Begin a turn, which goes on whether or not anybody reads its events. Without a prompt, go on from here.

        A call that waits for an answer is withdrawn when there is a new prompt.

        Raises:
            SessionBusy: A turn is under way, here or in another process.
            WebSessionError: The prompt is something else than text and media.
        """
        return await self._begin(prompt, tool_choice)

    async def answer(self, question: str, allow: bool | Mapping[str, Any], *, reason: str = "") -> WebSessionEvents:
        """Answer a question. The call that waits for it goes on, also after the program was started again.

        Args:
            question: The id of the question.
            allow: True or False, or other arguments for the call.
            reason: Why not; the model reads it.

        Raises:
            QuestionClosed: It waits for no answer in this session.
            SessionBusy: Another question is being answered; this one is asked again.
            WebSessionError: The arguments do not fit the tool, or the request has something else than an answer.
        """
        if not isinstance(question, str) or not isinstance(reason, str):
            raise WebSessionError("An answer names its question by a text, and a reason is a text.")
        reason = browser_safe_text(reason)
        if isinstance(allow, Mapping):
            given = _Answer(True, dict(allow), reason)
        elif isinstance(allow, bool):
            given = _Answer(allow, None, reason)
        else:
            raise WebSessionError("An answer is true, false, or an object with the arguments to use instead.")
        if (asked := self._open.get(question)) is not None:
            self._check_arguments(asked, given)
            if asked.word is not None and not asked.word.done():
                events = WebSessionEvents(self, self._feed.cursor, until_turn_ends=True)
                asked.word.set_result(given)
                return events
        if self._is_busy:
            # The turn that another answer has taken up comes to this question too; until then nobody hears the answer.
            is_asked_again = asked is not None and asked.word is None and question not in self._given
            raise SessionBusy if is_asked_again else QuestionClosed
        try:
            return await self._begin(None, "auto", (question, given))
        except SessionBusy:  # another process has the turn, and reads the answer from the journal
            await self._answer_elsewhere(question, given)
            return WebSessionEvents(self, self._feed.cursor, until_turn_ends=True)

    async def cancel(self) -> None:
        """End the turn under way. Each call that was made has its result, and nothing of the turn goes on."""
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait({self._turn})

    async def close(self) -> None:
        """End the turn under way, and every stream of events. A call that waits for an answer goes on waiting for it,
        in the record: what it waits for is asked again when the session is opened next."""
        waiting = [each.word for each in self._open.values() if each.word is not None and not each.word.done()]
        for word in waiting:
            word.cancel()
        if waiting and self._turn is not None:
            await asyncio.wait({self._turn}, timeout=_PAUSE_SECONDS)
        await self.cancel()
        self._feed.close()

    # ── a turn ───────────────────────────────────────────────────────────────────────

    async def _begin(
        self, prompt: Said, tool_choice: Choice, answer: tuple[str, _Answer] | None = None
    ) -> WebSessionEvents:
        if self._is_busy or self._sessions.is_closed:
            raise SessionBusy
        choice, said = choice_of(tool_choice), None if prompt is None else _content(prompt)
        self._is_busy = True
        after = self._feed.cursor
        engine: SessionEngine | None = None
        try:
            engine = await self._sessions.engine()
            context, deps = self._context(engine), self._sessions.deps_of(self.owner)
            await self._take_up(engine, context)
            if answer is not None:
                asked = self._open.get(answer[0])
                if asked is None:
                    raise QuestionClosed
                self._check_arguments(asked, answer[1])
                self._given = dict((answer,))
            elif said is not None:
                await self._withdraw(engine, context)
                self._say(said, engine)
        except BaseException as error:
            self._is_busy = False
            if engine is not None and not isinstance(error, SessionBusy):
                engine.executor.runs.let_go(self.run)
            raise
        events = WebSessionEvents(self, after, until_turn_ends=True)
        self._turn = asyncio.create_task(self._run_turn(engine, context, choice, deps))
        return events

    def _context(self, engine: SessionEngine) -> Context:
        principal = Principal(self.owner, engine.context.principal.scopes)
        return replace(engine.context, run=self.run, principal=principal)

    async def _take_up(self, engine: SessionEngine, context: Context) -> None:
        """Keep others off the run, and take over what they said in it."""
        runs = engine.executor.runs
        try:
            ledger = await runs.open(context)
        except LeaseHeld:
            raise SessionBusy from None
        recorded = engine.recorded(self.run) if ledger.continues else None
        if recorded is not None and not unanswered_calls(recorded):  # nobody has worked on it since
            self.conversation = recorded
            self._keep_questions(())
            return
        await self.read(engine.journal, await runs.history(self.run))

    async def begin_record(self, engine: SessionEngine) -> None:
        """Write down whose session it is, so that it is known to every process from now on."""
        try:
            await engine.executor.runs.open(self._context(engine))
        except LeaseHeld:
            raise SessionBusy from None
        engine.executor.runs.let_go(self.run)

    async def read(self, journal: Journal, history: Sequence[Recorded]) -> None:
        """Take over what the record has of the session.

        Raises:
            SessionNotFound: Its words were erased.
        """
        try:
            recorded = conversation_of(history)
        except UsageError:
            raise SessionNotFound from None
        # Of calls that wait, the conversation in memory still has the secrets, and the record has not.
        waiting = unanswered_calls(recorded)
        if not waiting or _ids(waiting) != _ids(self._unanswered()):
            self.conversation = recorded
        if not self.conversation.messages:
            self.conversation = self._sessions.beginning
        self._keep_questions(await open_questions(journal, self.run, history, waiting))

    def _keep_questions(self, asked: Iterable[ConfirmationRequested]) -> None:
        """These are the questions that wait for an answer, and no others."""
        found: dict[str, _OpenQuestion] = {}
        for each in asked:
            tool = each.tool if each.run == self.run else None
            about = "" if tool is None else self._sessions.about(tool)
            found[each.request] = _OpenQuestion(recorded_question(each, about), tool)
        for request in [*self._open.keys() - found.keys()]:
            self._close_question(request, "withdrawn")
        self._open = found

    def _close_question(self, request: str, decision: str) -> None:
        if self._open.pop(request, None) is not None:
            self._feed.tell("answered", {"id": request, "decision": decision})

    def _unanswered(self) -> tuple[InvocationMessage, ...]:
        return unanswered_calls(self.conversation)

    async def _withdraw(self, engine: SessionEngine, context: Context) -> None:
        """Calls that were left without a result get one before the user says something else."""
        executor, waiting = engine.executor, self._unanswered()
        results = [await executor.result_of_left_call(message.call, context) for message in waiting]
        if results:
            now = executor.runs.now()
            self.conversation = self.conversation.add(*(ResultMessage(result, now) for result in results))
        self._keep_questions(())

    def _say(self, content: Sequence[str | Content], engine: SessionEngine) -> None:
        said = engine.briefed(self.conversation).say(*content, at=engine.executor.runs.now())
        self.conversation = said
        (shown,) = browser_messages(said.messages[-1:], self._sessions.tools)
        del shown["role"]
        self._feed.tell("prompt", shown)

    async def _run_turn(self, engine: SessionEngine, context: Context, choice: Any, deps: Any) -> None:
        end, told, reason = "stopped", dict[str, Any](), "stopped"
        try:
            answer = self._sessions.answer_type
            await engine.run(self.conversation, self._emit, choice, self._follow, answer, deps, context=context)
            end, told, reason = "done", {"text": self._answer_text()}, "done"
        except asyncio.CancelledError:
            pass  # whoever cancelled it waits for the end of this task
        except Exception as error:
            end, reason = "failed", "failed"
            code, words = failure(error)
            reference = new_id("failure")
            told = {"code": code, "message": words, "reference": reference}
            logger.error("a turn of web session %s failed (%s)", self.id, reference, exc_info=error)
        try:
            await run_to_completion(self._let_go(engine, reason))
        except JournalError:
            logger.exception("the end of a turn of web session %s could not be recorded", self.id)
        except asyncio.CancelledError:
            pass
        finally:
            self._given.clear()
            self._live.clear()
            self._is_busy, self._turn = False, None
            if end == "done" and self._open:
                end, told = "waiting", {"questions": self.questions}
            self._feed.tell(end, told)

    async def _let_go(self, engine: SessionEngine, reason: str) -> None:
        """Others may work on the run from now on."""
        executor = engine.executor
        if not self._unanswered():
            self._keep_questions(())
            await executor.finish(self.run, reason, keep=True)
            return
        executor.runs.let_go(self.run)  # the run is not over: a call waits
        history = await engine.journal.history(self.run)
        self._keep_questions(await open_questions(engine.journal, self.run, history))

    def _follow(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._live.clear()

    def _answer_text(self) -> str:
        messages = self.conversation.messages
        if self._sessions.answer_type is not None:
            return answer_text(messages)
        return messages[-1].text if isinstance(messages[-1], AssistantMessage) else ""

    async def _emit(self, event: Event) -> None:
        told = browser_event(event)
        if told is None or not self._is_busy:
            return
        type, data = told
        match type:
            case "question":
                return  # it is told when the person is asked: a rule may have decided
            case "answered":
                return self._close_question(data["id"], data["decision"])
            case "reasoning" if not self._sessions.reasoning:
                return
        if isinstance(event, TextDelta):
            self._live.append(data["text"])
        self._feed.tell(type, data)

    # ── a question ───────────────────────────────────────────────────────────────────

    async def ask(self, question: Confirmation) -> Decision:
        """Put a question to the user, and wait for the answer; after a while the turn pauses without one."""
        given = self._given.pop(question.request, None)
        decision = await self._wait(question) if given is None else self._decision(question, given)
        if not isinstance(decision, Defer):
            self._close_question(question.request, "deny" if isinstance(decision, Deny) else "allow")
        return decision

    async def _wait(self, question: Confirmation) -> Decision:
        word: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        shown = asked_question(question)
        tool = question.tool if question.run == self.run else None
        self._open[question.request] = _OpenQuestion(shown, tool, question, word)
        self._feed.tell("question", shown)
        try:
            async with time_limit(self._sessions.answer_within):
                await asyncio.wait({word})
                return Defer() if word.cancelled() else self._decision(question, word.result())
        except TimeoutError:
            return Defer()

    def _decision(self, question: Confirmation, given: _Answer) -> Decision:
        if not given.allow:
            return Deny(self.owner, given.reason)
        if given.arguments is None:
            return Allow(self.owner)
        meant: dict[str, Any] = restore_masked(given.arguments, question.shown, question.arguments)
        return Edit(self.owner, meant)

    def _check_arguments(self, asked: _OpenQuestion, given: _Answer) -> None:
        if given.arguments is None:
            return
        arguments = given.arguments
        if asked.question is not None:
            arguments = restore_masked(arguments, asked.question.shown, asked.question.arguments)
        if problems := self._sessions.problems(asked.tool, arguments, asked.shown.get("form")):
            raise WebSessionError(f"These arguments do not fit: {'; '.join(problems)}")

    async def _answer_elsewhere(self, question: str, given: _Answer) -> None:
        journal = (await self._sessions.engine()).journal
        waiting = await open_questions(journal, self.run, await journal.history(self.run))
        asked = [each for each in waiting if each.request == question]
        if not asked:
            raise QuestionClosed
        if given.arguments is not None:
            raise SessionBusy
        word: Literal["allow", "deny"] = "allow" if given.allow else "deny"
        said = asked[0].answered(word, at=self._sessions.now(), by=self.owner, reason=given.reason)
        if await append_answer(journal, said, durable=True) != said:
            raise QuestionClosed


class WebSessionEvents:
    """The events of a session, or of one turn. If you stop reading them, nothing else stops."""

    def __init__(self, session: WebSession, after: int | None, *, until_turn_ends: bool = False) -> None:
        self._session = session
        self._after = after
        self._until_turn_ends = until_turn_ends
        self.events: AsyncGenerator[WebEvent, None] = self._read()

    def __aiter__(self) -> AsyncGenerator[WebEvent, None]:
        return self.events

    async def aclose(self) -> None:
        await self.events.aclose()

    async def _read(self) -> AsyncGenerator[WebEvent, None]:
        session, feed = self._session, self._session._feed
        if self._until_turn_ends and not session.is_working and self._after == feed.cursor:
            return  # the turn is in another process
        async with aclosing(feed.follow(session.snapshot, self._after)) as told:
            async for event in told:
                yield event
                if self._until_turn_ends and self._is_last(event):
                    return

    def _is_last(self, event: WebEvent) -> bool:
        return event.type in TURN_ENDS or (event.type == "snapshot" and not self._session.is_working)


def _content(prompt: Said) -> tuple[str | Content, ...]:
    """What a user says. A page may cut an emoji in two: its half is a question mark.

    Raises:
        WebSessionError: It is something else than text and media, as a request of anybody may have it.
    """
    try:
        return prompt_content(browser_safe_text(prompt) if isinstance(prompt, str) else prompt)
    except UsageError:
        raise WebSessionError("A prompt is a text, or a list of texts and media.") from None


def run_of(id: str) -> str:
    """The name of the run of a session. It has no dot, which parts the name of an agent's run from its caller's: else
    whoever chooses an id could have the run of an agent of somebody else."""
    return id.replace("%", "%25").replace(".", "%2E")


async def open_questions(
    journal: Journal, run: str, history: Sequence[Recorded], waiting: Sequence[InvocationMessage] | None = None
) -> list[ConfirmationRequested]:
    """The questions without an answer of the calls that wait at the end of a run, and of the runs of agents below
    them. `waiting` are those calls, where they are known."""
    if waiting is None:
        try:
            waiting = unanswered_calls(conversation_of(history))
        except UsageError:  # the words of an agent were erased
            return []
    answered = {event.request for event in history if waiting and isinstance(event, ConfirmationAnswered)}
    found: list[ConfirmationRequested] = []
    for message in waiting:
        asked = [each for each in history if isinstance(each, ConfirmationRequested) and each.call_id == message.id]
        found += [each for each in asked if each.request not in answered]
        below = nested_id(run, message.id)
        if nested := await journal.history(below):
            found += await open_questions(journal, below, nested)
    return found


def _event_number(after: str | int | None) -> int | None:
    """What a browser says that it has; anything that is no number is nothing."""
    if isinstance(after, str):
        return int(after) if after.isascii() and after.isdecimal() and len(after) < 20 else None
    return after


def _ids(messages: Iterable[InvocationMessage]) -> list[str]:
    return [message.id for message in messages]
