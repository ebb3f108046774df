"""One tool at work because a person wants to see it: its pane, and its questions. It goes on when they leave."""

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
from handrail.desk.tui.call_card import CallCard, CallCardContent
from handrail.desk.tui.dialogs import FullTextDialog
from handrail.desk.tui.formatting import attempt, count_text, line
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.values import DeskQuestion, LiveCall


class TrialScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("ctrl+x", "stop", "Stop"),
    ]

    def __init__(self, desk: Desk, name: str, arguments: dict[str, Any] | None = None, run: str = "") -> None:
        """With `run`, one that was begun before."""
        super().__init__()
        self._desk = desk
        self._tool = name
        self._arguments = arguments or {}
        self._cards: dict[str, CallCard] = {}
        self.run = run
        """The one that it makes on the record."""

    def compose(self) -> ComposeResult:
        yield VerticalScroll(classes="dialog tall", can_focus=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.attempt()

    @work
    async def attempt(self) -> None:
        await attempt(self, self._work())

    @work
    async def action_stop(self) -> None:
        await attempt(self, self._stop())

    async def _stop(self) -> None:
        if self.run:
            await self._desk.trials.find(self.run).stop()

    async def _work(self) -> None:
        trials = self._desk.trials
        trial = trials.find(self.run) if self.run else trials.begin(self._tool, self._arguments)
        self.run = trial.run
        async with aclosing(trial.follow()) as told:
            async for _, data in told:
                await self._hear(data)
        trial.is_seen = True

    async def _hear(self, data: Any) -> None:
        match data:
            case LiveCall():
                await self._show(data)
            case DeskQuestion():
                self.app.push_screen(QuestionScreen(self._desk, data))
            case {"request": request}:
                for each in self.app.screen_stack:
                    if isinstance(each, QuestionScreen) and each.question.request == request:
                        await each.close()

    async def _show(self, call: LiveCall) -> None:
        if call.call_id in self._cards:
            self._cards[call.call_id].show(CallCardContent.live(call))
            return
        card = self._cards[call.call_id] = CallCard(CallCardContent.live(call), unfolded=True)
        await self.query_one(VerticalScroll).mount(card)
        if len(self._cards) == 1:
            card.focus()

    @on(CallCard.Whole)
    def whole(self, event: CallCard.Whole) -> None:
        result = event.shown.result
        if result is not None:
            self.app.push_screen(
                FullTextDialog(f"{line(self._tool, 60)}, {count_text(len(result.text), 'character')}", result.text)
            )
