"""A conversation as it stands: what was said, how that looks, who is told of it, and what of it is kept on disk.

It changes nothing by itself. `Talk` is what happens in it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from handrail.app.app import App
from handrail.core.ids import NewId
from handrail.core.messages import Conversation
from handrail.core.ports import Clock
from handrail.desk.alerts import Alerts
from handrail.desk.choices import default_model
from handrail.desk.feed import ConversationFeed, DeskNews
from handrail.desk.live_turn import TurnAssembler
from handrail.desk.message_view import MessageView
from handrail.desk.model_pool import DeskModels
from handrail.desk.questions import PendingQuestions
from handrail.desk.saved_conversation import SavedConversation, conversation_summary
from handrail.desk.turns import shared_prefix_length
from handrail.desk.values import Alert, ConversationSnapshot, ConversationSummary, State
from handrail.run.history import unanswered_calls
from handrail.sessions.store.conversations import ConversationStore
from handrail.sessions.store.metadata import ConversationMetadata

logger = logging.getLogger(__name__)

_SHOWN = 40
"""Messages of a snapshot."""


@dataclass(frozen=True, slots=True)
class DeskContext:
    """What all conversations of a desk have in common."""

    app: App
    asking: PendingQuestions
    store: ConversationStore
    models: DeskModels
    news: DeskNews
    clock: Clock
    new_id: NewId


class ConversationState:
    def __init__(self, around: DeskContext, about: ConversationMetadata, conversation: Conversation) -> None:
        self.id = about.id
        self.conversation = conversation
        self.chosen = about.chosen
        self.alert: Alert | None = None
        self.feed = ConversationFeed(around.clock.now())
        self.kept = SavedConversation(around.store, about, conversation)
        self.around = around
        self.turn: TurnAssembler | None = None
        """The one that is under way."""
        self.alerts = Alerts(about.id)
        self._saver: asyncio.Task[None] | None = None

    @property
    def working(self) -> bool:
        return self.turn is not None

    @property
    def state(self) -> State:
        if self.around.asking.of(self.id):
            return "waiting"
        if self.working:
            return "working"
        if self.alert is not None:
            return "failed"
        return "waiting" if unanswered_calls(self.conversation) else "idle"

    @property
    def model(self) -> str:
        """By name: the one that was chosen, or that is taken where nobody chose."""
        return self.chosen.model or default_model(self.around.app.config)

    @property
    def shown(self) -> MessageView:
        return MessageView(self.around.app.executor.tools_of(self.id))

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
            live=None if self.turn is None else self.turn.live,
            questions=self.around.asking.of(self.id),
            alert=self.alert,
            run=self.id,
            forked_from=self.kept.about.forked_from,
        )

    # ── telling and keeping ──────────────────────────────────────────────────────────

    def interrupted(self, why: str) -> None:
        """It stands in mid-turn, and nobody here works on it."""
        self.alert = self.alerts.of("stopped", why, self.conversation, **self.noted())
        self.feed.tell("alert", self.alert)
        self.tell_state()

    def clear_alert(self) -> None:
        if self.alert is not None:
            self.alert = None
            self.feed.tell("alert")
            self.around.news.tell("settled", self.id, self.id)
            self.tell_state()

    def noted(self) -> dict[str, Any]:
        return {"id": self.around.new_id("alert"), "at": self.around.clock.now()}

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
        about = {"title": self.kept.about.title, "model": self.model, "ensembles": self.chosen.ensembles}
        self.feed.tell("about", about)

    def tell_news(self) -> None:
        if self.kept.about.title and not self.kept.is_gone:
            self.around.news.tell("talk", self.id, self.summary)

    def _save_soon(self) -> None:
        """While a turn is under way; whoever else changes something saves it themselves."""
        if self.working and (self._saver is None or self._saver.done()):
            self._saver = asyncio.create_task(self.save())
            self._saver.add_done_callback(_noted)

    async def save(self) -> None:
        """Raises:
        HandrailError: It cannot be kept.
        """
        title = self.kept.about.title
        await self.kept.save(lambda: (self.conversation, self.chosen), self.shown.kept)
        if self.kept.about.title != title:
            self.tell_about()
            self.tell_news()


def _noted(saving: asyncio.Task[None]) -> None:
    """It is tried again at the end of the turn, and told if it fails then too."""
    if not saving.cancelled() and (error := saving.exception()) is not None:
        logger.warning("a conversation could not be saved: %s", error)
