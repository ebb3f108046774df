"""The keys, and what is good to know."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

_KEYS = (
    ("Enter", "say it"),
    ("Ctrl+J", "a new line; Shift+Enter too, where the terminal tells it"),
    ("Esc", "stop the turn, leave an edit, close a dialog"),
    ("Ctrl+Z", "take the conversation back to anything that you said"),
    ("Ctrl+N", "a new conversation"),
    ("Ctrl+O", "conversations: search, fork, rename, share, take, delete"),
    ("F2", "tools: what each is, how it did, and trying one"),
    ("F3", "the record: what ran, verifying it, receipts, export"),
    ("F4, F5", "another model; other sets of tools"),
    ("F6, F7", "go to the alert; go to the question that waits"),
    ("Ctrl+T", "attach a file to what you say next"),
    ("Ctrl+S", "save a picture or a file of this conversation"),
    ("Tab", "to the panes of calls: Enter unfolds one, w shows all of it"),
    ("PageUp", "earlier messages"),
    ("Ctrl+P", "commands, and themes, light and dark"),
    ("Ctrl+Q", "leave"),
)
_NOTES = """
Before a tool changes something you are asked. The dialog shows exactly what will run; \
nothing that you happen to be typing answers it. Taking back a turn changes what the model \
sees. What tools did stays done, and stays on record.

Set TEXTUAL_THEME=textual-light for a light terminal, NO_COLOR=1 for none."""


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss(None)", "Close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog tall", can_focus=True):
            for key, says in _KEYS:
                yield Static(Content.assemble((f"{key:<8}", "bold $text-accent"), f" {says}"))
            yield Static(Content(_NOTES))
        yield Footer(compact=True, show_command_palette=False)
