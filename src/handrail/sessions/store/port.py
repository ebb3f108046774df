"""The port of a store of conversations: folders on disk, or the shared state of several replicas of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from handrail.core.ids import NewId, new_id
from handrail.core.messages import Conversation
from handrail.core.ports import Clock, SystemClock
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata

if TYPE_CHECKING:
    from handrail.sessions.store.conversations import ConversationMatch
    from handrail.state.database import StateDatabase


class Conversations(Protocol):
    """Keeps conversations by id. Several programs may share one; who saves last is believed. Every method blocks."""

    def save(
        self,
        id: str,
        conversation: Conversation,
        *,
        title: str | None = None,
        forked_from: str | None = None,
        chosen: ConversationChoices | None = None,
    ) -> ConversationMetadata:
        """Make this the conversation of that id. Without a title, the one it has or its first words; what was chosen
        for it stays so unless it is given."""
        ...

    def load(self, id: str) -> Conversation:
        """The conversation of this id.

        Raises:
            UsageError: There is none of that id.
            ContentError: It is there, but damaged.
        """
        ...

    def about(self, id: str) -> ConversationMetadata: ...

    def fork(self, id: str, *, upto: int | None = None) -> str:
        """Makes another conversation that begins as this one does; its long contents are not copied."""
        ...

    def list(self) -> tuple[ConversationMetadata, ...]:
        """All conversations, the last saved first; a damaged one is listed with its `problem`."""
        ...

    def search(self, words: str) -> tuple[ConversationMatch, ...]:
        """The places where this text occurs, in whatever case, in titles and in what was said and answered."""
        ...

    def delete(self, id: str) -> None:
        """Remove a conversation, damaged or not. `sweep()` then removes the contents that no other one has."""
        ...

    def sweep(self) -> int:
        """Remove contents that belong to no conversation, and say how many that were."""
        ...


def open_conversations(
    place: Path | StateDatabase, *, clock: Clock = SystemClock(), new_id: NewId = new_id
) -> Conversations:
    """The conversations of a folder, or of a shared state.

    Raises:
        StateError: The shared state cannot be used.
    """
    if isinstance(place, Path):
        from handrail.sessions.store.conversations import ConversationStore

        return ConversationStore(place, clock=clock, new_id=new_id)
    from handrail.sessions.store.shared_conversations import SharedConversations

    return SharedConversations(place, clock=clock, new_id=new_id)
