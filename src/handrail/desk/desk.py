"""The desk of a node: its conversations, and whatever a person can do with them. The page and the terminal share it.

It parses nothing and shows nothing: each method is one thing that a person does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any, Self

from handrail.app.app import LOOK, Adjust, App, AppAdditions, cancel_and_wait, open_app, reload_on_change
from handrail.app.person import Person
from handrail.config.values import Config
from handrail.core.display import safe_media_name
from handrail.core.errors import UsageError
from handrail.core.events import Emit, ignore_event
from handrail.core.ids import NewId, new_id
from handrail.core.messages import Conversation, Media, Message
from handrail.core.ports import Clock, SystemClock
from handrail.core.version import VERSION
from handrail.desk.call_counts import CallCounts
from handrail.desk.choices import check_ensembles, check_model, ensembles, models
from handrail.desk.context import DeskContext, DeskModels, DeskTerms
from handrail.desk.conversation_file import read_shared_file, write_shared_file
from handrail.desk.examples import example_prompts
from handrail.desk.feed import DeskNews
from handrail.desk.message_view import media_of
from handrail.desk.open_conversations import OpenConversations
from handrail.desk.questions import Decision, PendingQuestions
from handrail.desk.replicas import stop_turn
from handrail.desk.trials import ToolTrials
from handrail.desk.turns import answered_prefix_length, messages_from_input
from handrail.desk.values import (
    AttachedFile,
    ConversationEvent,
    ConversationItem,
    ConversationSnapshot,
    ConversationSummary,
    DeskInfo,
    DeskQuestion,
    FileDownload,
)
from handrail.desk.views.tools import tools_to_choose
from handrail.desk.waiting_questions import WaitingQuestions
from handrail.sessions.llm import LLM
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata

__all__ = ["Decision", "Desk"]

_MOST_ITEMS = 500


class Desk:
    """`open_desk` makes one. Used as a context; at its end turns under way are stopped."""

    def __init__(
        self,
        app: App,
        asking: PendingQuestions,
        *,
        by: str = "local",
        settings_writable: bool = False,
        node_id: str = "",
        terms: DeskTerms = DeskTerms(),
        clock: Clock = SystemClock(),
        new_id: NewId = new_id,
    ) -> None:
        self.app = app
        self.asking = asking
        self.by = by
        self.settings_writable = settings_writable
        self.node_id = node_id
        self.news = DeskNews()
        self._elsewhere = WaitingQuestions(app.journal.path, asking, self.news, clock)
        self.trials = ToolTrials(app, asking, self.news, new_id)
        self._store = app.state.conversations(clock=clock, new_id=new_id)
        self._models = DeskModels()
        self.calls = CallCounts()
        self._talks = OpenConversations(
            DeskContext(app, asking, self._store, self._models, self.news, clock, new_id, terms, self.calls)
        )
        self._new_id = new_id

    async def __aenter__(self) -> Self:
        self.app.listeners.append(self._tools_changed)
        self.app.rereaders.append(self._config_changed)
        await asyncio.to_thread(self._talks.tidy_up)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.app.listeners.remove(self._tools_changed)
        self.app.rereaders.remove(self._config_changed)
        try:
            await asyncio.gather(self.trials.close(), self._talks.close())
        finally:
            self.news.close()
            await self._models.aclose()

    def about(self) -> DeskInfo:
        config, tools = self.app.config, tools_to_choose(self.app)
        return DeskInfo(
            name=config.node.name,
            version=VERSION,
            node_id=self.node_id,
            person=self.by,
            models=models(config),
            ensembles=ensembles(self.app),
            tools=len(tools),
            settings_writable=self.settings_writable,
            examples=example_prompts(tools),
        )

    # ── conversations ────────────────────────────────────────────────────────────────

    async def talks(self, search: str = "") -> tuple[ConversationSummary, ...]:
        """All of them, the last used first; or those in which these words occur. One in which nobody has spoken yet
        is not listed."""
        words = search.strip()
        excerpts: dict[str, str] = {}
        for found in await asyncio.to_thread(self._store.search, words) if words else ():
            excerpts.setdefault(found.id, found.excerpt)
        kept = await asyncio.to_thread(self._store.list)
        return await self._talks.summaries(
            (about, excerpts.get(about.id, "")) for about in kept if about.title and (not words or about.id in excerpts)
        )

    async def watch(self) -> AsyncGenerator[tuple[str, Any], None]:
        """News of all conversations, until it is closed: ("talk", TalkSummary), ("gone", id), ("alert", Alert),
        ("settled", id) once its failure is answered, ("question", Question), ("answered", request), ("tools", count)
        when there is something else to choose from. Questions that wait already come first."""
        async with self._elsewhere.watched():
            known = self.news.watch(lambda: [("question", each) for each in (*self.questions, *self.asked_elsewhere)])
            async with aclosing(known) as news:
                async for each in news:
                    yield each

    async def begin(
        self,
        *,
        model: str | None = None,
        ensembles: Sequence[str] | None = None,
        off: Sequence[str] = (),
        system: str = "",
        run: tuple[str, Conversation] | None = None,
    ) -> str:
        """A new conversation, or one that goes on with a run of the record and what was said in it; its id.

        Raises:
            UsageError: There is no such model or ensemble.
        """
        if model:
            check_model(self.app.config, model)
        chosen = ConversationChoices(
            model=model or "",
            ensembles=None if ensembles is None else check_ensembles(self.app, ensembles),
            off=tuple(sorted(set(off))),
        )
        id, begun = run or (None, Conversation())
        if system and run is None:
            begun = begun.supervised(system, self.app.executor.runs.now())
        return await self._talks.begin(begun, chosen, run=id)

    async def follow(
        self, id: str, after: int | None = None
    ) -> AsyncGenerator[ConversationSnapshot | ConversationEvent, None]:
        """First a snapshot, then what happens. With `after`, what happened since then, if that is still known; else a
        snapshot again. Any number may follow one conversation; whoever falls far behind is told a snapshot again.
        It ends when the conversation is deleted, or the desk closes."""
        talk = await self._talks.of(id)
        async with aclosing(talk.feed.follow(talk.snapshot, after)) as told:
            async for each in told:
                yield each

    async def conversation(self, id: str) -> Conversation:
        """The conversation up to now."""
        return (await self._talks.of(id)).conversation

    async def model(self, id: str, name: str = "") -> LLM:
        """The model of this name, or the one that the next turn asks.

        Raises:
            UsageError: There is no such model, or it lacks a key or an address.
            MissingExtra: What it needs is not installed.
        """
        return self._models.open(self.app.config, name or (await self._talks.of(id)).model)

    async def items(self, id: str, before: int, limit: int = 40) -> tuple[ConversationItem, ...]:
        """Older messages."""
        talk = await self._talks.of(id)
        messages = talk.conversation.messages
        end = max(0, min(before, len(messages)))
        return talk.shown.items(messages, max(0, end - min(max(limit, 0), _MOST_ITEMS)), end)

    async def whole(self, id: str, index: int) -> str:
        """The text of a message that was shown clipped; of a call, its arguments."""
        talk = await self._talks.of(id)
        return talk.shown.whole(_at(talk.conversation, index))

    async def attachment(self, id: str, index: int, part: int) -> FileDownload:
        media = media_of(_at((await self._talks.of(id)).conversation, index))
        if not 0 <= part < len(media):
            raise UsageError(f"message {index} has no file {part}")
        found = media[part]
        if found.data is None:
            where = found.url if isinstance(found, Media) else ""
            raise UsageError(f"this file is not here but at {where}")
        return FileDownload(
            name=safe_media_name(found.name, found.media_type), media_type=found.media_type, data=found.data
        )

    async def say(
        self,
        id: str,
        text: str,
        attached: Sequence[AttachedFile] = (),
        *,
        upto: int | None = None,
        once: str | None = None,
        emit: Emit = ignore_event,
    ) -> int:
        """Say something and let the model answer; returns the index of the message, and does not wait for the answer.
        With `upto`, everything from that message on is taken back first: edit and go on. `once` is an id of the
        client's: the same words are not said twice when an answer was lost. `emit` is told every event of the turn.

        Raises:
            UsageError: A turn is under way, here or in another program; there is no such conversation, or nothing is
                said.
        """
        messages = messages_from_input(text, attached, self.app.executor.runs.now())
        return await (await self._talks.of(id)).say(messages, upto, once, emit)

    async def add(self, id: str, messages: Sequence[Message]) -> None:
        """Give the model something to read with the next turn."""
        await (await self._talks.of(id)).add(messages)

    async def again(self, id: str, *, emit: Emit = ignore_event) -> None:
        """Let the model answer again: after a failure, or to take up calls that have their word now. What it said last
        is taken back; nothing that was done is done again."""
        await (await self._talks.of(id)).again(emit)

    async def take_up(self, run: str) -> None:
        """Go on with a turn that was cut off with another replica, unless a third one already does. Calls that wait for
        a person wait here; nothing that was begun is done again.

        Raises:
            UsageError: It is a run of no conversation.
        """
        await self._talks.take_up(run)

    async def finished(self, id: str) -> None:
        """Wait for the end of the turn under way, and raise what it failed with."""
        await (await self._talks.of(id)).finished()

    async def stop(self, id: str) -> None:
        """End the turn under way, here or at another replica. What was done stays done and on record.

        Raises:
            UsageError: The replica that has it does not answer.
        """
        await stop_turn(self.app.state.database, self._talks, id)

    async def heard_of(self, id: str | None) -> None:
        """Take over what another replica saved of a conversation, for those who look at it here; None is of any."""
        for each in self._talks.looked_at if id is None else (id,):
            await self._talks.heard_of(each)

    async def stop_if_here(self, id: str) -> None:
        """End a turn that is under way here, as somebody said at another replica."""
        await self._talks.stop_if_here(id)

    async def undo(self, id: str, upto: int) -> str:
        """Keep so many messages. Ends a turn under way first. Returns the words of the person that were taken back
        first, to be edited, or "". A turn is taken back as a whole: `upto` goes back to where a person spoke."""
        return await (await self._talks.of(id)).undo(upto)

    async def dismiss(self, id: str) -> None:
        """The failure was seen."""
        await (await self._talks.of(id)).dismiss()

    async def choose(
        self,
        id: str,
        *,
        model: str | None = None,
        ensembles: Sequence[str] | EllipsisType | None = ...,
        off: Sequence[str] | None = None,
    ) -> None:
        """Go on with another model or with other tools, from the next turn on. What is not given stays as it is;
        None is all ensembles. Tools that are switched `off` stay so when they are away and come back."""
        talk = await self._talks.of(id)
        chosen: dict[str, Any] = {}
        if model is not None:
            check_model(self.app.config, model)
            chosen["model"] = model
        if ensembles is not ...:
            chosen["ensembles"] = None if ensembles is None else check_ensembles(self.app, ensembles)
        if off is not None:
            chosen["off"] = tuple(sorted(set(off)))
        await talk.choose(**chosen)

    async def fork(self, id: str, upto: int | None = None) -> str:
        """Another conversation that begins as this one does, with so many messages or one less where a call would be
        without its result. Its run is its own."""
        talk = await self._talks.of(id)
        messages = talk.conversation.messages
        begun = talk.conversation.upto(answered_prefix_length(messages, len(messages) if upto is None else upto))
        kept = Conversation(talk.shown.kept(begun.messages))
        chosen = ConversationChoices(model=talk.chosen.model, ensembles=talk.chosen.ensembles, off=talk.chosen.off)
        return await self._talks.begin(kept, chosen, talk.kept.about.title or None, id)

    async def rename(self, id: str, title: str) -> None:
        if not title.strip():
            raise UsageError("a title has at least one letter")
        await (await self._talks.of(id)).rename(title)

    async def save(self, id: str, title: str | None = None) -> ConversationMetadata:
        """Keep it on disk from now on, where the terms of the desk do not do that by themselves."""
        talk = await self._talks.of(id)
        await talk.rename(title)
        return talk.kept.about

    async def delete(self, id: str) -> None:
        """Ends a turn under way first. What is on record of it stays."""
        await self._talks.delete(id)

    async def share(self, id: str) -> FileDownload:
        """Writes the conversation as a file that `take` reads here or elsewhere, with its attachments."""
        talk = await self._talks.of(id)
        return await asyncio.to_thread(write_shared_file, talk.kept.about.title, talk.conversation, talk.shown)

    async def take(self, data: bytes) -> str:
        """A conversation from a file. Nothing in it is run or believed: it is words.

        Raises:
            UsageError: It is no such file.
        """
        title, conversation = await asyncio.to_thread(read_shared_file, data, self._new_id)
        return await self._talks.begin(conversation, ConversationChoices(), title)

    # ── questions ────────────────────────────────────────────────────────────────────

    @property
    def questions(self) -> tuple[DeskQuestion, ...]:
        """What waits for a decision now, in all conversations and tools that are tried."""
        return self.asking.questions

    @property
    def asked_elsewhere(self) -> tuple[DeskQuestion, ...]:
        """What other programs ask in the same journal, as far as those know who watch."""
        return self._elsewhere.shown

    async def all_questions(self) -> tuple[DeskQuestion, ...]:
        """What waits for a decision now: `questions`, and what other programs ask in the same journal."""
        await self._elsewhere.look()
        return (*self.questions, *self.asked_elsewhere)

    async def decide(
        self,
        request: str,
        decision: Decision,
        *,
        arguments: dict[str, Any] | str | None = None,
        reason: str = "",
        rule: str | None = None,
    ) -> None:
        """Take a decision, also on what another program asks in the same journal; that can be allowed or denied only
        (see `all_questions`). `always` also sets the rule, one of those that the question offered. Arguments of `edit`
        are checked first: what does not fit is refused with the reasons, and the question stays open. They are a
        value, or the text that a person made of `written`.

        Raises:
            UsageError: No such question waits (somebody else answered it), or the arguments do not fit. If its turn
                ended while a rule was set, it says that the rule holds.
        """
        if not self.asking.waits(request):
            return await self._elsewhere.decide(request, decision, reason)
        word = self.asking.word(request, decision, arguments=arguments, reason=reason, rule=rule)
        if decision == "always" and rule is not None:
            with self.asking.claimed(request):  # else it may be denied in another tab while the rule is written
                await asyncio.to_thread(self.app.standing.add, rule)
                if not self.asking.waits(request):
                    raise UsageError(f"the turn ended before your answer; the rule applies from now on: {rule}")
        self.asking.answer(request, word, decision)

    def _tools_changed(self) -> None:
        self.news.tell("tools", "", len(tools_to_choose(self.app)))

    def _config_changed(self) -> None:
        """Tells of a changed configuration: there may be other models to choose from, and another default."""
        self._tools_changed()
        self._talks.tell_about()


def _at(conversation: Conversation, index: int) -> Any:
    if not 0 <= index < len(conversation):
        raise UsageError(f"there is no message {index}; there are {len(conversation)}")
    return conversation.messages[index]


@asynccontextmanager
async def open_desk(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    person: Person | None = None,
    *,
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
) -> AsyncIterator[Desk]:
    """As `open_app`, with conversations. Every so many seconds of `look` the files are looked at; None is never.

    Raises:
        UsageError: Something in the configuration is not available.
        McpError: An MCP server that is required is not available.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    asking = PendingQuestions(person.by)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(config, journal, wanted, asking.knowing, person, adjust=adjust))
        if look is not None:
            watching = asyncio.create_task(reload_on_change(app, person, look, lambda config: None, ""))
            stack.push_async_callback(cancel_and_wait, watching)
        yield await stack.enter_async_context(Desk(app, asking, by=person.by, settings_writable=True))
