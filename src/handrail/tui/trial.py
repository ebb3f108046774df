"""One tool at work because a person wants to see it: its pane, and its questions. Leaving cancels the call."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer

from handrail.desk.desk import Desk
from handrail.desk.values import LiveCall, Question
from handrail.desk.views.trying import tried
from handrail.tui.asking import got
from handrail.tui.card import Card, Shown
from handrail.tui.dialogs import Whole
from handrail.tui.question import Ask
from handrail.tui.words import count, line


class Trial(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, desk: Desk, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self._desk = desk
        self._tool = name
        self._arguments = arguments
        self._cards: dict[str, Card] = {}
        self.run = ""
        """The one that it makes on the record."""
        self.under_way = True

    def compose(self) -> ComposeResult:
        yield VerticalScroll(classes="dialog tall", can_focus=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.attempt()

    @work
    async def attempt(self) -> None:
        await got(self, self._work())
        self.under_way = False

    async def _work(self) -> None:
        frames = tried(self._desk.app, self._desk.asking, self._desk.news, self._tool, self._arguments)
        async with aclosing(frames) as told:
            async for _, data in told:
                await self._hear(data)

    async def _hear(self, data: Any) -> None:
        match data:
            case LiveCall():
                await self._show(data)
            case Question():
                self.app.push_screen(Ask(self._desk, data))
            case {"request": request}:
                for each in self.app.screen_stack:
                    if isinstance(each, Ask) and each.question.request == request:
                        await each.close()

    async def _show(self, call: LiveCall) -> None:
        self.run = call.run
        if call.call_id in self._cards:
            self._cards[call.call_id].show(Shown.live(call))
            return
        card = self._cards[call.call_id] = Card(Shown.live(call), unfolded=True)
        await self.query_one(VerticalScroll).mount(card)
        if len(self._cards) == 1:
            card.focus()

    @on(Card.Whole)
    def whole(self, event: Card.Whole) -> None:
        result = event.shown.result
        if result is not None:
            self.app.push_screen(Whole(f"{line(self._tool, 60)}, {count(len(result.text), 'character')}", result.text))
