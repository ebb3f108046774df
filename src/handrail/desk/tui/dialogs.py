"""Small questions to the person, each a screen over the others: pick one, write a line, be sure, read a long text."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widgets import Button, Footer, Input, Log, OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from handrail.core.display import printable_lines
from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.tui.formatting import attempt, count_text, line, plain
from handrail.desk.tui.messages import WHO, part_words
from handrail.desk.values import AttachedFile, ConversationItem, DeskInfo, EnsembleChoice, FileDownload

_MOST = 64 << 20


def read_named_file(path: str) -> bytes:
    """The bytes of a file that a person named.

    Raises:
        UsageError: It cannot be read, or is far too large.
    """
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > _MOST:
            raise UsageError(f"{path!r} is larger than {_MOST >> 20} MB; name a smaller file")
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error


def read_attachment(path: str) -> AttachedFile:
    """A file that a person attaches to a message.

    Raises:
        UsageError: As `read_named_file`.
    """
    name = Path(path).name
    return AttachedFile(name=name, media_type=mimetypes.guess_type(name)[0] or "text/plain", data=read_named_file(path))


def write_new(path: str, data: bytes) -> Path:
    """Writes a new file and returns its path.

    Raises:
        UsageError: Something is there already, or it cannot be written.
    """
    file = Path(path).expanduser()
    try:
        with file.open("xb") as out:
            out.write(data)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}; name another file") from error
    return file.resolve()


_OPTIONS = 100
_PIECE = 100
"""Messages that are read at once."""
_CLOSE = Binding("escape", "dismiss(None)", "Cancel")


class Dialog(ModalScreen[ScreenResultType]):
    """A box over the other screens: a title, a note, and what a subclass puts under them."""

    BINDINGS: ClassVar[list[BindingType]] = [_CLOSE]
    SIZE: ClassVar[str] = ""
    """A class of the style sheet beside `dialog`."""

    def __init__(self, title: str, note: str = "") -> None:
        super().__init__()
        self._title = title
        self._note = note

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog {self.SIZE}"):
            yield Static(plain(self._title, "bold"))
            if self._note:
                yield Static(plain(self._note), classes="note")
            yield from self.fields()
        yield Footer(compact=True, show_command_palette=False)

    def fields(self) -> ComposeResult:
        raise NotImplementedError


class PickDialog(Dialog[str | None]):
    """Lets the person pick one of several by its key; None if none was picked."""

    def __init__(self, title: str, options: Sequence[tuple[str, str]], *, note: str = "", chosen: str = "") -> None:
        super().__init__(title, note)
        self._options = options
        self._chosen = chosen

    def fields(self) -> ComposeResult:
        yield OptionList(*(Option(plain(says)) for _, says in self._options), compact=True)

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.focus()
        keys = [key for key, _ in self._options]
        options.highlighted = keys.index(self._chosen) if self._chosen in keys else 0 if keys else None

    @on(OptionList.OptionSelected)
    def picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._options[event.option_index][0])


class PickSomeDialog(Dialog[tuple[str, ...] | None]):
    """Lets the person pick any number of several by their keys; None if it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "done", "Take these", priority=True)]

    def __init__(self, title: str, options: Sequence[tuple[str, str]], chosen: Iterable[str]) -> None:
        super().__init__(title, "Space turns one on or off, Enter confirms.")
        self._options = options
        self._chosen = frozenset(chosen)

    def fields(self) -> ComposeResult:
        rows = (Selection(plain(says), key, key in self._chosen) for key, says in self._options)
        yield SelectionList[str](*rows, compact=True)

    def action_done(self) -> None:
        self.dismiss(tuple(self.query_one(SelectionList).selected))


class LineDialog(Dialog[str | None]):
    """A line of text; None if it was given up."""

    def __init__(self, title: str, value: str = "", *, note: str = "", may_be_empty: bool = False) -> None:
        super().__init__(title, note)
        self._value = value
        self._may_be_empty = may_be_empty

    def fields(self) -> ComposeResult:
        yield Input(self._value, compact=True)

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


class FullTextDialog(Dialog[None], inherit_bindings=False):
    """A text that is too long for its place, as long as it is. Only the lines that are seen are ever laid out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Close")]
    SIZE = "whole"

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title)
        self._text = text

    def fields(self) -> ComposeResult:
        yield Log(auto_scroll=False)

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


# ── the questions of a conversation ──────────────────────────────────────────────────


def pick_model(about: DeskInfo, current: str) -> PickDialog:
    rows = [(each.name, f"{each.name}  {each.model}" if each.model else each.name) for each in about.models]
    return PickDialog("Continue with which model?", rows, chosen=current)


def pick_tools(about: DeskInfo, ensembles: Sequence[str] | None, off: Sequence[str]) -> PickSomeDialog:
    """Sets of tools, and below each its tools; None is all sets."""
    rows: list[tuple[str, str]] = []
    for each in about.ensembles:
        rows.append((f"{_SET}{each.name}", _ensemble_words(each)))
        rows += [(f"{_TOOL}{name}", f"  {line(name, 60)}") for name in each.names]
    chosen = [key for key, _ in rows if key.startswith(_TOOL) and key.removeprefix(_TOOL) not in off]
    chosen += [f"{_SET}{each.name}" for each in about.ensembles if ensembles is None or each.name in ensembles]
    return PickSomeDialog("Which tools are offered?", rows, chosen)


def chosen_tools(
    about: DeskInfo, taken: Sequence[str], off: Sequence[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The sets and the tools switched off that `pick_tools` gave. Of tools that are not there now, those stay off that
    were."""
    sets = tuple(each.name for each in about.ensembles if f"{_SET}{each.name}" in taken)
    there = [name for each in about.ensembles for name in each.names]
    now = (*(name for name in there if f"{_TOOL}{name}" not in taken), *(name for name in off if name not in there))
    return None if len(sets) == len(about.ensembles) else sets, now


_SET, _TOOL = "set ", "tool "


def _ensemble_words(choice: EnsembleChoice) -> str:
    problem = f", {line(choice.problem, 40)}" if choice.problem else ""
    return f"{choice.name or 'own tools'}, {count_text(choice.tools, 'tool')}{problem}"


async def list_undo_points(desk: Desk, talk: str, total: int) -> list[tuple[str, str]]:
    """The index of each thing a person said, and its first words; the last first, and at most a hundred."""

    def words(item: ConversationItem) -> list[tuple[str, str]]:
        said = line(item.text.text if item.text else "", 60) or "(a file)"
        return [(str(item.index), said)] if item.kind == "user" else []

    return await _last_options(desk, talk, total, words)


async def list_conversation_files(desk: Desk, talk: str, total: int) -> list[tuple[str, str]]:
    """A key, `message.part`, and the words for each file whose bytes are here; the last first, at most a hundred."""

    def files(item: ConversationItem) -> list[tuple[str, str]]:
        who = WHO.get(item.kind, item.name or item.kind)
        here = [(at, part) for at, part in enumerate(item.parts) if not part.url]
        return [(f"{item.index}.{at}", f"{part_words(part)} · {who}") for at, part in here]

    return await _last_options(desk, talk, total, files)


async def _last_options(
    desk: Desk, talk: str, before: int, options: Callable[[ConversationItem], list[tuple[str, str]]]
) -> list[tuple[str, str]]:
    """The options of the last messages, the last first, read in pieces until there are enough."""
    found: list[tuple[str, str]] = []
    while before > 0 and len(found) < _OPTIONS:
        items = await desk.items(talk, before, _PIECE)
        if not items:
            break
        found += (option for item in reversed(items) for option in options(item))
        before = items[0].index
    return found[:_OPTIONS]


async def save_download(at: Screen[Any], title: str, file: FileDownload, note: str = "") -> None:
    """Ask where a file is written, write it there, and say so."""
    path = await at.app.push_screen_wait(LineDialog(title, file.name, note=note))
    if path is not None and (written := await attempt(at, asyncio.to_thread(write_new, path, file.data))) is not None:
        at.notify(line(str(written)), title="Written", markup=False)
