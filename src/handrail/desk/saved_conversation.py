"""A conversation on disk: what of it was saved last, and whether somebody else works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from handrail.app.app import App
from handrail.core.errors import LeaseHeld, UsageError
from handrail.core.messages import Conversation, Message
from handrail.core.tasks import run_to_completion
from handrail.desk.values import ConversationSummary, State
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata
from handrail.sessions.store.port import Conversations

Now = Callable[[], tuple[Conversation, ConversationChoices]]
Masked = Callable[[Iterable[Message]], tuple[Message, ...]]
_TITLE = 200


class SavedConversation:
    def __init__(
        self, store: Conversations, about: ConversationMetadata, conversation: Conversation, *, is_kept: bool
    ) -> None:
        self.about = about
        """As it was last saved."""
        self.is_kept = is_kept
        """Whether it is on disk, or is to be with the next save."""
        self.title: str | None = None
        """One that the next save sets; None leaves the one that it has, or takes its first words."""
        self.is_gone = False
        """Whether the conversation was deleted; it is never saved again."""
        self._store = store
        self._saved = (conversation, about.chosen) if is_kept else None
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_saving(self) -> bool:
        return self._one_at_a_time.locked()

    async def save(self, now: Now, masked: Masked) -> None:
        """Keep it as it is, and as it has become when that is done.

        Raises:
            HandrailError: It cannot be kept.
        """
        async with self._one_at_a_time:
            while self.is_kept and not self.is_gone and (self.title is not None or not self._has(*now())):
                conversation, chosen = now()
                # To the end: two saves at once could end in the wrong order.
                await run_to_completion(self._save(conversation, masked(conversation.messages), chosen))

    def took(self, about: ConversationMetadata, conversation: Conversation) -> None:
        """Adopts the version that another program saved."""
        self.about, self._saved = about, (conversation, about.chosen)

    def _has(self, conversation: Conversation, chosen: ConversationChoices) -> bool:
        return self._saved is not None and self._saved[0] is conversation and self._saved[1] == chosen

    async def _save(self, conversation: Conversation, masked: tuple[Message, ...], chosen: ConversationChoices) -> None:
        store, id, title = self._store, self.about.id, self.title
        facts: dict[str, Any] = {"title": None if title is None else " ".join(title.split())[:_TITLE]}
        try:
            self.about = await asyncio.to_thread(store.save, id, Conversation(masked), chosen=chosen, **facts)
        except OSError as error:
            raise ContentError(f"conversation {id!r} cannot be saved: {error.strerror or error}") from error
        self._saved = conversation, chosen
        if self.title is title:
            self.title = None


async def check_not_in_use(app: App, id: str) -> None:
    """What another program works on is not changed here: whoever saves last would undo what the other did.

    Raises:
        UsageError: Another program works on this conversation now.
    """
    if app.executor.runs.holds(id):
        return
    try:
        (await app.journal.lease(id)).release()
    except LeaseHeld as held:
        raise UsageError(f"another program is working on this conversation: {held}") from held


def conversation_summary(about: ConversationMetadata, state: State = "idle", excerpt: str = "") -> ConversationSummary:
    return ConversationSummary(
        id=about.id,
        title=about.title,
        created=round(about.created.timestamp() * 1000),
        updated=round(about.updated.timestamp() * 1000),
        messages=about.messages,
        state=state,
        forked_from=about.forked_from,
        excerpt=excerpt,
    )
