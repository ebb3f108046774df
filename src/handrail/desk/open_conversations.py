"""The conversations that are open: each once, read from disk when somebody first asks for it.

Several programs may share the folder. What another one saved is taken over when
somebody next asks; a run that it works on is left to it. What this or another one
left in mid-turn is told as such.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from msgspec.structs import replace

from handrail.core.errors import HandrailError, UsageError
from handrail.core.messages import Conversation
from handrail.core.tasks import run_to_completion
from handrail.desk.context import DeskContext
from handrail.desk.conversation import DeskConversation
from handrail.desk.saved_conversation import check_not_in_use, conversation_summary
from handrail.desk.turns import begins_with
from handrail.desk.values import ConversationSummary, State
from handrail.run.history import conversation_of
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata, moment
from handrail.tools.masking import masked_messages

logger = logging.getLogger(__name__)

_CUT_OFF = "the program ended in the middle of this turn; let the model answer again, or undo the turn"
_MOST_OPEN = 64
"""The number of conversations in memory above which unused ones are closed."""
_FORGOTTEN = 24 * 3_600_000
"""Milliseconds after which a conversation in which nobody has spoken is removed."""


class OpenConversations:
    def __init__(self, around: DeskContext) -> None:
        self._around = around
        self._store = around.store
        self._talks: dict[str, DeskConversation] = {}
        self._going: set[str] = set()
        """Those that are being deleted."""
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    async def of(self, id: str) -> DeskConversation:
        """The conversation of this id, opened if it was not.

        Raises:
            UsageError: There is no such conversation.
            ContentError: It is there, but damaged.
        """
        async with self._one_at_a_time:
            if self._closed:
                raise UsageError("the desk is closed; start the program again")
            self._check_stays(id)
            talk = self._talks.get(id)
            if talk is None:
                self._let_go_of_idle()
                talk = self._talks[id] = await self._open(id)
            elif not talk.in_use and talk.kept.is_kept:
                await self._take_over(talk)
            return talk

    @property
    def looked_at(self) -> set[str]:
        """The conversations that somebody follows here, or that another replica works on."""
        return {id for id, talk in self._talks.items() if talk.feed.followers or talk.at_replica}

    async def heard_of(self, id: str) -> None:
        """Take over what another replica saved, if somebody looks at it, and tell those who watch all of them."""
        if (talk := self._talks.get(id)) is not None:
            if not talk.in_use:
                await self.of(id)
        elif self._around.news.is_watched:
            try:
                about = await asyncio.to_thread(self._store.about, id)
            except UsageError:  # it was deleted
                self._around.news.tell("gone", id, id)
                return
            if about.title:
                (summary,) = await self.summaries([(about, "")])
                self._around.news.tell("talk", id, summary)

    async def stop_if_here(self, id: str) -> None:
        """End a turn that is under way here."""
        if (talk := self._talks.get(id)) is not None and talk.working:
            await talk.stop()

    async def take_up(self, id: str) -> None:
        """Go on with a turn in whose middle another program ended, if there is one and nobody else does.

        Raises:
            UsageError: There is no such conversation.
            ContentError: It is there, but damaged.
        """
        if not (await asyncio.to_thread(self._store.about, id)).chosen.working:
            return

        async def left() -> tuple[ConversationMetadata, Conversation] | None:
            about, conversation = await asyncio.to_thread(self._read, id)
            return (about, await self._from_record(id, conversation)) if about.chosen.working else None

        await (await self.of(id)).take_up(left)

    def tell_about(self) -> None:
        """Tells every follower of every open conversation its title and model."""
        for talk in self._talks.values():
            talk.tell_about()

    async def begin(
        self,
        conversation: Conversation,
        chosen: ConversationChoices,
        title: str | None = None,
        forked_from: str | None = None,
        run: str | None = None,
    ) -> str:
        """A new one; its id is that of its run in the record."""
        id, now = run or self._around.new_id("run"), moment(self._around.clock.now())
        about = ConversationMetadata(id=id, created=now, updated=now, forked_from=forked_from, chosen=chosen)
        if self._around.terms.saves:
            masked = Conversation(masked_messages(conversation.messages, self._around.app.tools))
            about = await asyncio.to_thread(
                self._store.save, id, masked, title=title, forked_from=forked_from, chosen=chosen
            )
        self._let_go_of_idle()
        talk = DeskConversation(self._around, about, conversation, is_kept=self._around.terms.saves)
        self._talks[id] = talk
        talk.tell_news()
        return id

    async def delete(self, id: str) -> None:
        """Deletes a conversation, with the contents that no other one has. The other conversations go on meanwhile."""
        async with self._one_at_a_time:
            self._check_stays(id)
            talk = self._talks.get(id)
            if talk is None or not talk.in_use:
                await check_not_in_use(self._around.app, id)
            self._going.add(id)
        await run_to_completion(self._delete(id, talk))  # who leaves in the middle must not leave half of it
        await asyncio.to_thread(self._sweep, id)

    async def summaries(self, kept: Iterable[tuple[ConversationMetadata, str]]) -> tuple[ConversationSummary, ...]:
        """The summaries of conversations, open or not, with what a search found in each."""
        return tuple([conversation_summary(about, await self._state(about), excerpt) for about, excerpt in kept])

    async def _state(self, about: ConversationMetadata) -> State:
        if (talk := self._talks.get(about.id)) is not None:
            return talk.state
        if about.chosen.working and await self._elsewhere(about.id):
            return "working"
        return "failed" if about.chosen.working or about.problem else "idle"

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(talk.close() for talk in self._talks.values()))

    def tidy_up(self) -> None:
        """Remove what was begun long ago and never spoken in. It blocks."""
        now = self._around.clock.now()
        try:
            for about in self._store.list():
                age = now - about.updated.timestamp() * 1000
                if not about.title and about.messages < 2 and age > _FORGOTTEN:
                    self._store.delete(about.id)
        except (HandrailError, OSError):
            logger.exception("empty conversations could not be removed; everything else continues")

    async def _open(self, id: str) -> DeskConversation:
        about, conversation, why = await self._found(id)
        talk = DeskConversation(self._around, about, conversation)
        talk.at_replica = self._is_told_by_replicas(why)
        _tell_why(talk, why)
        return talk

    async def _found(self, id: str) -> tuple[ConversationMetadata, Conversation, str]:
        """The conversation as stored, and the reason if its last turn was interrupted."""
        about, conversation = await asyncio.to_thread(self._read, id)
        if not about.chosen.working:
            return about, conversation, ""
        if why := await self._elsewhere(id):
            return about, conversation, why
        return about, await self._from_record(id, conversation), _CUT_OFF

    async def _elsewhere(self, id: str) -> str:
        """The reason if another program works on the conversation, else an empty text."""
        app = self._around.app
        held = None if app.executor.runs.holds(id) else await app.journal.find_holder(id)
        return "" if held is None else f"another program is working on this conversation: {held}"

    async def _from_record(self, id: str, saved: Conversation) -> Conversation:
        """What the record has of a turn that was cut off, if it knows more of it than was saved."""
        try:
            recorded = conversation_of(await self._around.app.journal.history(id))
        except UsageError:  # its words were erased
            return saved
        return recorded if begins_with(recorded.messages, saved.messages) else saved

    async def _take_over(self, talk: DeskConversation) -> None:
        try:
            about = await asyncio.to_thread(self._store.about, talk.id)
        except UsageError:  # another program deleted it
            await talk.close(gone=True)
            del self._talks[talk.id]
            self._around.news.tell("gone", talk.id, talk.id)
            raise
        # One that another program worked on may have been left in mid-turn since.
        was_left = talk.chosen.working and not await self._elsewhere(talk.id)
        if about.revision <= talk.kept.about.revision and not was_left:
            return
        about, conversation, why = await self._found(talk.id)
        if not talk.in_use and about.revision >= talk.kept.about.revision:
            talk.take_over(about, conversation, at_replica=self._is_told_by_replicas(why))
            _tell_why(talk, why)

    def _is_told_by_replicas(self, why: str) -> bool:
        """Whether why a turn is not under way here is that a replica works on it, which tells what it saves."""
        return why not in ("", _CUT_OFF) and self._around.app.state.database is not None

    def _read(self, id: str) -> tuple[ConversationMetadata, Conversation]:
        return self._store.about(id), self._store.load(id)

    def _check_stays(self, id: str) -> None:
        if id in self._going:
            raise UsageError(f"conversation {id!r} was deleted")

    async def _delete(self, id: str, talk: DeskConversation | None) -> None:
        try:
            if talk is not None:
                await talk.close(gone=True)
                self._talks.pop(id, None)
            await asyncio.to_thread(self._store.delete, id)
        except UsageError:  # another program was quicker, and nobody here has heard of it
            self._around.news.tell("gone", id, id)
            raise
        finally:
            self._going.discard(id)
        self._around.news.tell("gone", id, id)

    def _sweep(self, id: str) -> None:
        try:
            self._store.sweep()
        except HandrailError:
            logger.exception("conversation %s is deleted; contents that nobody has any more stay on disk", id)

    def _let_go_of_idle(self) -> None:
        if len(self._talks) >= _MOST_OPEN:
            self._talks = {id: talk for id, talk in self._talks.items() if talk.is_needed}


def _tell_why(talk: DeskConversation, why: str) -> None:
    if why and not talk.at_replica:
        talk.interrupted(why)
    if why == _CUT_OFF:
        # It is told until somebody does something with it. What they then take back does not come back from the record.
        talk.chosen = replace(talk.chosen, working=False)
