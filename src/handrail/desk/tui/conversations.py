"""The conversations: listed and searched, forked, renamed, deleted, given away as a file and taken from one."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from handrail.desk.desk import Desk
from handrail.desk.tui.dialogs import ConfirmDialog, LineDialog, read_named_file, save_download
from handrail.desk.tui.formatting import MUTED, attempt, count_text, line, moment
from handrail.desk.values import ConversationSummary

_STATES = {"working": "▶ working", "waiting": "? waits", "failed": "✗ failed", "idle": ""}


class ConversationsScreen(Screen[str | None]):
    """The id of the conversation to go to; None to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("slash", "search", "Search"),
        Binding("f", "fork", "Fork"),
        Binding("r", "rename", "Rename"),
        Binding("d,delete", "delete", "Delete"),
        Binding("s", "share", "Share"),
        Binding("t", "take", "Take"),
    ]

    def __init__(self, desk: Desk, current: str) -> None:
        super().__init__()
        self._desk = desk
        self._current = current
        self._talks: tuple[ConversationSummary, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static("Conversations", classes="title")
        yield Input(placeholder="/ searches titles and text", id="search", compact=True)
        yield OptionList(id="talks", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    async def on_mount(self) -> None:
        await self._show()
        self.query_one(OptionList).focus()

    async def _show(self) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted or 0
        found = await attempt(self, self._desk.talks(self.query_one(Input).value.strip()))
        if found is None:
            return
        self._talks = found
        options.clear_options()
        options.add_options(Option(_row(each, each.id == self._current)) for each in self._talks)
        if self._talks:
            options.highlighted = min(at, len(self._talks) - 1)

    @on(Input.Changed)
    def searched(self) -> None:
        self.find()

    @work(exclusive=True, group="search")
    async def find(self) -> None:
        await self._show()

    @on(Input.Submitted)
    def found(self) -> None:
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._talks[event.option_index].id)

    def action_search(self) -> None:
        self.query_one(Input).focus()

    @work(exclusive=True)
    async def action_fork(self) -> None:
        if (talk := self._chosen) is not None and (forked := await attempt(self, self._desk.fork(talk.id))) is not None:
            self.dismiss(forked)

    @work(exclusive=True)
    async def action_rename(self) -> None:
        if (talk := self._chosen) is None:
            return
        title = await self.app.push_screen_wait(LineDialog("Which title?", line(talk.title)))
        if title is not None:
            await attempt(self, self._desk.rename(talk.id, title))
            await self._show()

    @work(exclusive=True)
    async def action_delete(self) -> None:
        if (talk := self._chosen) is None:
            return
        question = (
            f"Delete “{line(talk.title, 60)}”, {count_text(talk.messages, 'message')}?\nThe record of what ran stays."
        )
        if await self.app.push_screen_wait(ConfirmDialog(question, "Delete")):
            await attempt(self, self._desk.delete(talk.id))
            await self._show()

    @work(exclusive=True)
    async def action_share(self) -> None:
        if (talk := self._chosen) is None or (file := await attempt(self, self._desk.share(talk.id))) is None:
            return
        note = "It contains all messages and tool results: give it only to people who may read them."
        await save_download(self, "Save to which file?", file, note)

    @work(exclusive=True)
    async def action_take(self) -> None:
        path = await self.app.push_screen_wait(LineDialog("Import a conversation from which file?"))
        if path is None or (data := await attempt(self, asyncio.to_thread(read_named_file, path))) is None:
            return
        if (taken := await attempt(self, self._desk.take(data))) is not None:
            self.dismiss(taken)

    @property
    def _chosen(self) -> ConversationSummary | None:
        at = self.query_one(OptionList).highlighted
        return None if at is None or at >= len(self._talks) else self._talks[at]


def _row(talk: ConversationSummary, current: bool) -> Content:
    state = _STATES[talk.state]
    return Content.assemble(
        ("● " if current else "  ", "$text-accent"),
        (line(talk.title, 44) or "(no messages yet)", "bold"),
        (f"  {moment(talk.updated)}, {count_text(talk.messages, 'message')}", MUTED),
        ("  forked" if talk.forked_from else "", MUTED),
        (f"  {state}" if state else "", "$text-warning"),
        (f"\n    {line(talk.excerpt, 70)}" if talk.excerpt else "", "italic"),
    )
