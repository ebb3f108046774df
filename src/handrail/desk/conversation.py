"""What happens in one conversation: what a person does, and the turn that comes of it.

A turn belongs to the conversation and to nobody who looks at it. What happens is told
to the feed; what was said is kept on disk as it grows. A turn ends in one way, whatever
became of it: its run is let go, what it left is kept, and everybody is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Context
from handrail.core.display import browser_safe_text
from handrail.core.errors import LeaseHeld, LeaseLost, UsageError
from handrail.core.event_feed import EventFeed
from handrail.core.events import (
    CallSettled,
    Emit,
    Event,
    Notice,
    ReasoningDelta,
    ServiceCallMade,
    TextDelta,
    ignore_event,
)
from handrail.core.messages import Conversation, Message, ResultMessage
from handrail.core.redact import redact_text
from handrail.desk.alerts import Alerts
from handrail.desk.choices import default_model, tool_patterns
from handrail.desk.context import DeskContext
from handrail.desk.live_turn import TurnAssembler
from handrail.desk.message_view import MessageView, shown_service_call
from handrail.desk.saved_conversation import SavedConversation, check_not_in_use, conversation_summary
from handrail.desk.turns import (
    first_words_from,
    last_spoken_index,
    messages_to_answer,
    shared_prefix_length,
    title_from_messages,
    turn_start_at,
    turn_starts,
)
from handrail.desk.values import (
    Alert,
    ConversationEvent,
    ConversationSnapshot,
    ConversationSummary,
    DeskQuestion,
    State,
)
from handrail.run.history import unanswered_calls
from handrail.sessions.store.metadata import ConversationMetadata

logger = logging.getLogger(__name__)

_SHOWN = 40
"""Messages of a snapshot."""
_ONCE = 64
"""Keys of what was said that are remembered."""


class DeskConversation:
    def __init__(
        self, around: DeskContext, about: ConversationMetadata, conversation: Conversation, *, is_kept: bool = True
    ) -> None:
        self.id = about.id
        self.conversation = conversation
        self.chosen = about.chosen
        self.alert: Alert | None = None
        self.feed = EventFeed(ConversationEvent, around.clock.now())
        self.kept = SavedConversation(around.store, about, conversation, is_kept=is_kept)
        self.around = around
        self._alerts = Alerts(about.id, around.clock, around.new_id)
        self.turn: TurnAssembler | None = None
        """The one that is under way."""
        self._saver: asyncio.Task[None] | None = None
        self._once = BoundedMemory[str, int](_ONCE)
        self._one_at_a_time = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        """Ends with the turn, or is cancelled."""
        self._ending: asyncio.Task[BaseException | None] | None = None
        """Waits for the work and then ends the turn; nobody cancels it. Its result is what the turn failed with."""
        self._emit_too: Emit = ignore_event
        """Whoever began the turn is told every event."""
        self._closing = False
        self._is_elsewhere = False
        """Whether another program has the run of the last turn, and so keeps what is said."""
        self.at_replica: bool = False
        """Whether another replica lets the model answer now. What it saves is taken over, and it can be told to end."""
        self._asked: dict[str, str] = {}
        """The calls that questions are about."""
        self._denied: set[str] = set()
        """Calls that the person said no to: that they do not run is no news to them."""
        if self.chosen.once and turn_starts(conversation.messages):
            self._once[self.chosen.once] = last_spoken_index(conversation.messages)

    @property
    def in_use(self) -> bool:
        """Whether something happens in it now."""
        return self.working or self._one_at_a_time.locked() or self.kept.is_saving

    @property
    def is_needed(self) -> bool:
        """Whether closing it now would lose something that is not on disk."""
        return self.in_use or self.state != "idle" or self.feed.followers > 0 or not self.kept.is_kept

    @property
    def working(self) -> bool:
        return self.turn is not None

    @property
    def state(self) -> State:
        if self.around.asking.of(self.id):
            return "waiting"
        if self.working or self.at_replica:
            return "working"
        if self.alert is not None:
            return "failed"
        return "waiting" if unanswered_calls(self.conversation) else "idle"

    @property
    def model(self) -> str:
        """The name of the model that was chosen, or of the default one."""
        return self.chosen.model or default_model(self.around.app.config)

    @property
    def shown(self) -> MessageView:
        return MessageView(self.around.app.executor.runs.tools_of(self.id))

    @property
    def summary(self) -> ConversationSummary:
        return replace(conversation_summary(self.kept.about, self.state), messages=len(self.conversation))

    def snapshot(self) -> ConversationSnapshot:
        messages = self.conversation.messages
        return ConversationSnapshot(
            id=self.id,
            title=self.kept.about.title,
            state=self.state,
            total=len(messages),
            items=self.shown.items(messages, max(0, len(messages) - _SHOWN)),
            cursor=self.feed.cursor,
            model=self.model,
            ensembles=self.chosen.ensembles,
            off=self.chosen.off,
            live=None if self.turn is None else self.turn.live,
            questions=self.around.asking.of(self.id),
            alert=self.alert,
            run=self.id,
            forked_from=self.kept.about.forked_from,
        )

    # ── what a person does ───────────────────────────────────────────────────────────

    async def say(self, said: Sequence[Message], upto: int | None, once: str | None, emit: Emit = ignore_event) -> int:
        async with self._one_at_a_time:
            if once is not None and once in self._once:
                return self._once[once]
            if upto is not None:
                await self._take_back(upto)
            self._check_free()
            await check_not_in_use(self.around.app, self.id)
            await self._wind_up()
            if not self.kept.about.title and not first_words_from(said, 0).strip():
                self.kept.title = title_from_messages(said)
            self.become(self.conversation.add(*said))
            index = len(self.conversation) - 1
            if once is not None:
                self._once[once] = index
            self._start(once or "", emit)
        await self.save()
        return index

    async def add(self, messages: Sequence[Message]) -> None:
        """Messages that the model reads with the next turn."""
        async with self._one_at_a_time:
            self._check_free()
            await self._wind_up()
            self.become(self.conversation.add(*messages))
        await self.save()

    async def again(self, emit: Emit = ignore_event) -> None:
        async with self._one_at_a_time:
            self._check_free()
            await check_not_in_use(self.around.app, self.id)
            conversation = messages_to_answer(self.conversation)
            if not turn_starts(conversation.messages):
                raise UsageError("there is no message to answer yet; write one first")
            self.become(conversation)
            self._start(self.chosen.once, emit)

    async def take_up(self, left: Callable[[], Awaitable[tuple[ConversationMetadata, Conversation] | None]]) -> None:
        """Go on with a turn in whose middle another program ended; `left` reads what it left, if there is such a turn.
        It is read under the lease of the run: another replica may have gone on with it and be done."""
        async with self._one_at_a_time:
            runs = self.around.app.executor.runs
            if self.working or self._closing or self.kept.is_gone or runs.holds(self.id) or await left() is None:
                return
            try:
                await runs.open(Context(run=self.id))
            except LeaseHeld:
                return
            try:
                if (found := await left()) is not None:
                    self.take_over(*found)
                    self._start(self.chosen.once, ignore_event)
            finally:
                if not self.working:
                    runs.let_go(self.id)

    async def finished(self) -> None:
        """Wait for the end of the turn under way, and raise what it failed with."""
        if self._ending is not None and (error := await asyncio.shield(self._ending)) is not None:
            raise error

    async def stop(self) -> None:
        """End the turn under way; nothing of it goes on after this."""
        if self._work is not None and self._ending is not None:
            self._work.cancel()
            await asyncio.wait({self._ending})

    async def undo(self, upto: int) -> str:
        async with self._one_at_a_time:
            words = await self._take_back(upto)
        await self.save()
        return words

    async def _take_back(self, upto: int) -> str:
        await self.stop()
        await check_not_in_use(self.around.app, self.id)
        messages = self.conversation.messages
        at = turn_start_at(messages, upto)
        self.become(self.conversation.upto(at))
        self.clear_alert()
        self.tell_state()
        return first_words_from(messages, at)

    async def dismiss(self) -> None:
        self.clear_alert()
        await self.save()

    async def choose(self, **chosen: Any) -> None:
        await check_not_in_use(self.around.app, self.id)
        self.chosen = replace(self.chosen, **chosen)
        self.tell_about()
        await self.save()

    async def rename(self, title: str | None) -> None:
        """Give it another title, and a place on disk if it had none."""
        await check_not_in_use(self.around.app, self.id)
        self.kept.title = title
        self.kept.is_kept = True
        await self.save()

    async def close(self, *, gone: bool = False) -> None:
        """End what is under way. Nothing is told after this."""
        self._closing = True
        self.kept.is_gone |= gone
        await self.stop()
        async with self._one_at_a_time:  # somebody may be about to begin a turn
            await self.stop()
        if gone:
            self.feed.tell("gone")
        self.feed.close()

    def take_over(self, about: ConversationMetadata, conversation: Conversation, *, at_replica: bool = False) -> None:
        """Continues after another program went on with the conversation and saved it; `at_replica` tells whether a
        replica still works on it."""
        self.kept.took(about, conversation)
        self.chosen, self.at_replica = about.chosen, at_replica
        self.become(conversation)
        self.clear_alert()
        self.tell_about()
        self.tell_state()

    def _check_free(self) -> None:
        if self.kept.is_gone:
            raise UsageError(f"conversation {self.id!r} was deleted")
        if self._closing:
            raise UsageError("the desk is closed; start the program again")
        if self.working:
            raise UsageError("a turn is in progress in this conversation; wait until it ends, or stop it")

    async def _wind_up(self) -> None:
        """Calls that were left without a result get one before anybody speaks: what became of them, or that they
        never began."""
        executor, context = self.around.app.executor, Context(run=self.id)
        try:
            results = [
                await executor.result_of_left_call(message.call, context)
                for message in unanswered_calls(self.conversation)
            ]
        except BaseException:
            executor.runs.let_go(self.id)
            raise
        if results:
            now = executor.runs.now()
            self.become(self.conversation.add(*(ResultMessage(result, now) for result in results)))

    # ── a turn ───────────────────────────────────────────────────────────────────────

    def _start(self, once: str, emit: Emit) -> None:
        self._emit_too = emit
        self._is_elsewhere = self.at_replica = False
        self.chosen = replace(self.chosen, working=True, once=once)
        self._denied.clear()
        self.turn = TurnAssembler(self.shown, begun=self.around.clock.now(), model=self.model)
        self.turn.requested.update(call.id for call in unanswered_calls(self.conversation))  # they are taken up
        self._work = asyncio.create_task(self._answer())
        self._ending = asyncio.create_task(self._end(self._work))
        self.clear_alert()
        self.tell_state()

    async def _answer(self) -> None:
        """Let the model answer. What was said is on disk before anything comes of it."""
        await self.save()
        app = self.around.app
        llm = self.around.models.open(app.config, self.model)
        valid = tool_patterns(self.chosen.ensembles, self.chosen.off, app.tools)
        runner = app.runner(llm, self.around.terms.on_wait, valid=valid)
        with self.around.asking.attend(self.id, self.id, self._take_question_event, self.kept.about.title):
            await runner.run(self.conversation, Context(run=self.id), self._emit, follow=self._follow)

    async def _end(self, work: asyncio.Task[None]) -> BaseException | None:
        await asyncio.wait({work})
        error = None if work.cancelled() else work.exception()
        try:
            # Kept first: whoever takes up the run next reads what was said in it.
            for step in (self._keep, self._let_go):
                try:
                    await step(work)
                except Exception as failed:
                    error = error or failed
            if error is not None:
                self.raise_alert(self._alerts.of_error(error, self.conversation))
            return error
        finally:
            self.turn = self._work = self._ending = None
            self.around.calls.ended(self.id)
            self.tell_state()

    async def _keep(self, work: asyncio.Task[None]) -> None:
        self._is_elsewhere = not work.cancelled() and _is_elsewhere(work.exception())
        self._put_away(broken=_broken(work))
        # Cut off by the end of the program, it is told as such when it is opened again.
        self.chosen = replace(self.chosen, working=self._closing and work.cancelled())
        if not self._is_elsewhere:
            await self.save()

    async def _let_go(self, work: asyncio.Task[None]) -> None:
        """Others may take up the run, and the next turn begins with the tools that there are then."""
        executor = self.around.app.executor
        if unanswered_calls(self.conversation):
            executor.runs.let_go(self.id)  # it is not over: a call waits
        elif self.around.terms.ends_turns:
            await executor.finish(self.id, "stopped" if work.cancelled() else "failed" if _broken(work) else "done")

    def _put_away(self, *, broken: bool) -> None:
        """What the model said before it broke off is kept as its words. What else is live is over, and so is the need
        for secrets, unless a call still waits: they are kept as the record has them."""
        assert self.turn is not None
        live = self.turn.live
        said_before_end = self.turn.broken_off(self.around.app.executor.runs.now()) if broken else None
        self.turn = TurnAssembler(self.shown, begun=live.begun, model=live.model)
        said = self.conversation
        if not unanswered_calls(said):
            said = Conversation(self.shown.kept(said.messages))
        if said_before_end is not None:
            said = said.add(said_before_end)
        if not self.become(said) and (live.text or live.calls or live.reasoning or live.notices):
            self.tell_items(len(said))

    async def _emit(self, event: Event) -> None:
        turn = self.turn
        if turn is None:
            return  # late news of work that outlived its turn
        await self._emit_too(event)
        self.around.calls.take(event)
        call = turn.take(event)
        match event:
            case TextDelta(text=text):
                self.feed.tell("text", {"text": browser_safe_text(text)})
            case ReasoningDelta(text=text):
                self.feed.tell("reasoning", {"text": browser_safe_text(text)})
            case ServiceCallMade(call=made):
                self.feed.tell("service_call", shown_service_call(made))
            case Notice(text=text):
                self.feed.tell("notice", {"text": browser_safe_text(redact_text(text))})
        if call is not None:
            self.feed.tell("call", call)
        if isinstance(event, CallSettled) and self._is_news(event, turn):
            self.raise_alert(self._alerts.of_call(event, self.conversation))

    def _is_news(self, event: CallSettled, turn: TurnAssembler) -> bool:
        """Whether a tool did not do what the model asked it, and not by the person's own word."""
        stopping = self._work is not None and self._work.cancelling() > 0
        own = stopping or event.call_id in self._denied
        return event.outcome != "ok" and event.call_id in turn.requested and not own

    def _follow(self, conversation: Conversation) -> None:
        """The runner says how the conversation is now."""
        if conversation is self.conversation:
            return
        answered = (each.invocation_id for each in conversation.messages if isinstance(each, ResultMessage))
        left = () if self.turn is None else self.turn.took_in(answered)
        self.become(conversation)
        for call in left:
            self.feed.tell("call", call)

    def _take_question_event(self, event: str, data: Any) -> None:
        """A question of this conversation, or that it has its answer."""
        if isinstance(data, DeskQuestion):
            self._asked[data.request] = data.call_id
        else:
            call = self._asked.pop(data["request"], "")
            if data["decision"] == "deny":
                self._denied.add(call)
        self.around.asking.tell(self.around.news, data)
        self.feed.tell(event, data)
        self.tell_state()

    # ── telling and keeping ──────────────────────────────────────────────────────────

    def interrupted(self, why: str) -> None:
        """Marks the conversation as stopped in mid-turn with nobody working on it."""
        self.alert = self._alerts.of("stopped", why, self.conversation)
        self.feed.tell("alert", self.alert)
        self.tell_state()

    def clear_alert(self) -> None:
        if self.alert is not None:
            self.alert = None
            self.feed.tell("alert")
            self.around.news.tell("settled", self.id, self.id)
            self.tell_state()

    def raise_alert(self, alert: Alert) -> None:
        self.alert = alert
        self.feed.tell("alert", alert)
        self.around.news.tell("alert", alert.id, alert)

    def become(self, conversation: Conversation) -> bool:
        """Be another conversation, and tell from where on it is another, if it is."""
        before, self.conversation = self.conversation.messages, conversation
        at = shared_prefix_length(before, conversation.messages)
        if at == len(before) == len(conversation):
            return False
        self.tell_items(at)
        self._save_soon()
        return True

    def tell_items(self, at: int) -> None:
        messages = self.conversation.messages
        calls = () if self.turn is None else self.turn.live.calls
        told = {"from": at, "items": self.shown.items(messages, at), "total": len(messages), "calls": calls}
        self.feed.tell("items", told)

    def tell_state(self) -> None:
        live = None if self.turn is None else self.turn.live
        model, begun = (self.model, 0) if live is None else (live.model, live.begun)
        self.feed.tell("state", {"state": self.state, "model": model, "begun": begun})
        self.tell_news()

    def tell_about(self) -> None:
        tools = {"ensembles": self.chosen.ensembles, "off": self.chosen.off}
        self.feed.tell("about", {"title": self.kept.about.title, "model": self.model, **tools})

    def tell_news(self) -> None:
        if self.kept.about.title and not self.kept.is_gone:
            self.around.news.tell("talk", self.id, self.summary)

    def _save_soon(self) -> None:
        """While a turn is under way; whoever else changes something saves it themselves."""
        if self.working and not self._is_elsewhere and (self._saver is None or self._saver.done()):
            self._saver = asyncio.create_task(self.save())
            self._saver.add_done_callback(_noted)

    async def save(self) -> None:
        """Writes the conversation to its folder.

        Raises:
            HandrailError: It cannot be kept.
        """
        title = self.kept.about.title
        await self.kept.save(lambda: (self.conversation, self.chosen), self.shown.kept)
        if self.kept.about.title != title:
            self.tell_about()
            self.tell_news()


def _is_elsewhere(error: BaseException | None) -> bool:
    """Whether a turn failed because another program has its run, or took it up meanwhile."""
    while error is not None and not isinstance(error, LeaseHeld | LeaseLost):
        error = error.__cause__
    return error is not None


def _broken(work: asyncio.Task[None]) -> bool:
    """Whether the turn was cancelled or failed."""
    return work.cancelled() or work.exception() is not None


def _noted(saving: asyncio.Task[None]) -> None:
    """Logs a failed save; the end of the turn saves again and reports a failure."""
    if not saving.cancelled() and (error := saving.exception()) is not None:
        logger.warning("a conversation could not be saved: %s", error)
