"""A conversation as it is read: the last messages, older ones when asked for, and what is under way at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from handrail.desk.tui.call_card import CallCard, CallCardContent
from handrail.desk.tui.formatting import line, plain
from handrail.desk.tui.messages import MessageWidget, ModelText, service_call_note
from handrail.desk.values import ConversationItem, ConversationSnapshot, LiveCall, LiveTurn, ShownServiceCall

PIECE = 40
"""Messages that are shown at first, and with each look further back."""
_MOST = 160
"""Messages that stay mounted once the person is at the end again."""


class TranscriptView(VerticalScroll, can_focus=False):
    class Ready(Message):
        """Everything can be shown now."""

    class WantsOlder(Message):
        """The person is at the beginning of what is shown."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.first = 0
        """The index of the oldest message that is shown."""
        self._cards: dict[str, CallCard] = {}
        self._live: dict[str, CallCard] = {}
        self._words: ModelText | None = None
        self._thoughts = ""

    def compose(self) -> ComposeResult:
        yield Static(id="older", classes="note")
        yield Vertical(id="items")
        yield Vertical(id="live")

    def on_mount(self) -> None:
        self.post_message(TranscriptView.Ready())

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if new <= 0 < old and self.first > 0:
            self.post_message(TranscriptView.WantsOlder())

    # ── messages ─────────────────────────────────────────────────────────────────────

    async def show(self, snapshot: ConversationSnapshot) -> None:
        items = snapshot.items[-PIECE:]
        self.first = items[0].index if items else 0
        with self.app.batch_update():
            await _remove(self._items, list(self._items.children))
            self._cards = {}
            await self._add(items)
            await self._show_live(snapshot.live)
        self.anchor()

    async def renew(self, first: int, items: Sequence[ConversationItem]) -> None:
        """Replaces every message from `first` on, and drops the unfinished turn."""
        with self.app.batch_update():
            gone = [each for each in self._items.children if _index(each) >= first]
            cards = [each for each in (*gone, *self._live.values()) if isinstance(each, CallCard)]
            open_ones = {card.shown.call_id for card in cards if card.unfolded}
            self._forget(gone)
            await _remove(self._items, gone)
            await self._end_live()
            await self._add(items, open_ones)
            await self._trim()
        self.first = min(self.first, first)

    async def older(self, items: Sequence[ConversationItem]) -> None:
        """Put these before what is there; what the person looks at stays where it is."""
        if not items:
            return
        below = self.virtual_size.height - self.scroll_y
        with self.app.batch_update():
            await self._add(items, before=True)
        self.first = items[0].index
        self._say_older()
        self.call_after_refresh(lambda: self.scroll_to(y=self.virtual_size.height - below, animate=False, force=True))

    async def _add(
        self, items: Iterable[ConversationItem], unfolded: Iterable[str] = (), *, before: bool = False
    ) -> None:
        open_ones, new = frozenset(unfolded), list[Widget]()
        for item in items:
            known = self._cards.get(item.call_id)
            match item.kind:
                case "result" if known is not None:
                    known.show(known.shown.answered(item))
                case "call" if before and known is not None:  # its result is shown further down already
                    known.show(_with_call(known.shown, item))
                case "call" | "result":
                    shown = (
                        CallCardContent.called(item)
                        if item.kind == "call"
                        else CallCardContent.called(item).answered(item)
                    )
                    card = CallCard(shown, index=item.index, unfolded=item.call_id in open_ones)
                    self._cards[item.call_id] = card
                    new.append(card)
                case _ if (
                    (item.text is not None and item.text.text) or item.parts or item.sources or item.service_calls
                ):
                    new.append(MessageWidget(item))
        await self._items.mount_all(new, before=0 if before and self._items.children else None)
        self._say_older()

    async def _trim(self) -> None:
        """Let go of what was looked at long ago."""
        children = list(self._items.children)
        if len(children) > _MOST and self.is_vertical_scroll_end:
            gone = children[:-PIECE]
            self._forget(gone)
            await _remove(self._items, gone)
            self.first = _index(self._items.children[0])
            self._say_older()

    def _forget(self, gone: Iterable[Widget]) -> None:
        for each in gone:
            if isinstance(each, CallCard):
                self._cards.pop(each.shown.call_id, None)

    def _say_older(self) -> None:
        note = self.query_one("#older", Static)
        note.display = self.first > 0
        note.update(f"↑ {self.first:,} earlier, PageUp shows them")

    # ── what is under way ────────────────────────────────────────────────────────────

    async def text(self, piece: str) -> None:
        if self._words is None:
            self._words = ModelText()
            await self._under_way.mount(self._words)
        await self._words.more(piece)

    async def thought(self, piece: str) -> None:
        """The last line of what the model thinks: enough to see that it does."""
        self._thoughts = (self._thoughts + piece)[-400:]
        shown = plain(f"thinking … {line(self._thoughts)[-70:]}")
        if found := self._under_way.query(".thought"):
            found.first(Static).update(shown)
        else:
            await self._under_way.mount(Static(shown, classes="note thought"))

    async def call(self, call: LiveCall) -> None:
        shown = CallCardContent.live(call)
        if (card := self._live.get(call.call_id) or self._cards.get(call.call_id)) is not None:
            card.show(shown)
            return
        self._live[call.call_id] = CallCard(shown)
        await self._under_way.mount(self._live[call.call_id])
        self._words = None  # what the model says now stands under the call

    async def service_call(self, call: ShownServiceCall) -> None:
        await self._under_way.mount(service_call_note(call))
        self._words = None

    async def notice(self, text: str) -> None:
        await self._under_way.mount(Static(plain(text), classes="note"))

    async def _show_live(self, live: LiveTurn | None) -> None:
        await self._end_live()
        if live is None:
            return
        for made in live.service_calls:
            await self.service_call(made)
        if live.text:
            await self.text(live.text)
        for call in live.calls:
            await self.call(call)
        for notice in live.notices:
            await self.notice(notice)

    async def _end_live(self) -> None:
        self._live = {}
        self._words = None
        self._thoughts = ""
        await _remove(self._under_way, list(self._under_way.children))

    @property
    def _items(self) -> Vertical:
        return self.query_one("#items", Vertical)

    @property
    def _under_way(self) -> Vertical:
        return self.query_one("#live", Vertical)


def _index(widget: Widget) -> int:
    return widget.index if isinstance(widget, MessageWidget | CallCard) and widget.index is not None else 0


def _with_call(shown: CallCardContent, item: ConversationItem) -> CallCardContent:
    return replace(shown, arguments=item.arguments, written=item.written)


async def _remove(parent: Widget, children: list[Widget]) -> None:
    """Remove widgets to the end, also when the worker that asks for it is cancelled.

    Textual waits for the tasks of the widgets in one `gather`: a cancelled worker would cancel those tasks, and the
    program would then end with a `CancelledError`.
    """
    await asyncio.shield(parent.remove_children(children))
