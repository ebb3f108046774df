"""Small questions to the person, each a screen over the others: pick one, write a line, be sure, read a long text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Footer, Input, Log, OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from handrail.core.safe_text import printable_lines
from handrail.desk.tui.formatting import plain

_CLOSE = Binding("escape", "dismiss(None)", "Cancel")


class PickDialog(ModalScreen[str | None]):
    """One of several, by its key; None if none."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], *, note: str = "", chosen: str = "") -> None:
        super().__init__()
        self._title = title
        self._options = options
        self._note = note
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(plain(self._title, "bold"))
            if self._note:
                yield Static(plain(self._note), classes="note")
            yield OptionList(*(Option(plain(says)) for _, says in self._options), compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.focus()
        keys = [key for key, _ in self._options]
        options.highlighted = keys.index(self._chosen) if self._chosen in keys else 0 if keys else None

    @on(OptionList.OptionSelected)
    def picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._options[event.option_index][0])


class PickSomeDialog(ModalScreen[tuple[str, ...] | None]):
    """Any number of several, by their keys; None if it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE, Binding("enter", "done", "Take these", priority=True)]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], chosen: Iterable[str]) -> None:
        super().__init__()
        self._title = title
        self._options = options
        self._chosen = frozenset(chosen)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(plain(self._title, "bold"))
            yield Static("Space turns one on or off, Enter takes them.", classes="note")
            rows = (Selection(plain(says), key, key in self._chosen) for key, says in self._options)
            yield SelectionList[str](*rows, compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def action_done(self) -> None:
        self.dismiss(tuple(self.query_one(SelectionList).selected))


class LineDialog(ModalScreen[str | None]):
    """A line of text; None if it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]

    def __init__(self, title: str, value: str = "", *, note: str = "", may_be_empty: bool = False) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._note = note
        self._may_be_empty = may_be_empty

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(plain(self._title, "bold"))
            if self._note:
                yield Static(plain(self._note), classes="note")
            yield Input(self._value, compact=True)
        yield Footer(compact=True, show_command_palette=False)

    @on(Input.Submitted)
    def said(self, event: Input.Submitted) -> None:
        if event.value.strip() or self._may_be_empty:
            self.dismiss(event.value.strip())


class ConfirmDialog(ModalScreen[bool]):
    """Whether the person means it. Enter alone is no yes: the button that does nothing has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(False)", "Cancel"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self._question = question
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(plain(self._question))
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="no", compact=True)
                yield Button(Content(self._yes), id="yes", variant="error", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    @on(Button.Pressed)
    def answered(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class FullTextDialog(ModalScreen[None]):
    """A text that is too long for its place, as long as it is. Only the lines that are seen are ever laid out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog whole"):
            yield Static(plain(self._title, "bold"))
            yield Log(auto_scroll=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        width = max(20, self.app.size.width - 8)
        log = self.query_one(Log)
        log.write_lines(chain.from_iterable(_pieces(each, width) for each in printable_lines(self._text).split("\n")))
        log.focus()


def _pieces(text: str, width: int) -> Iterator[str]:
    """The line in pieces of at most that width, cut between words where there are any near."""
    at = 0
    while len(text) - at > width:
        space = text.rfind(" ", at + width // 2, at + width)
        end = at + width if space < 0 else space + 1
        yield text[at:end]
        at = end
    yield text[at:] or " "  # the log drops lines that are empty
