"""What an empty conversation shows: which tools there are, what may be asked first, and the keys that lead on.

Tab goes to the examples; Enter on one puts its words where they can be changed. The page shows the same.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from handrail.desk.tui.formatting import MUTED, count_text, line, plain
from handrail.desk.values import DeskInfo, ExamplePrompt

_NAMES = 12
"""Tools that are named."""
_KEYS = "Enter sends · F1 all keys · F2 tools · F4 another model · Ctrl+O conversations · Ctrl+Q quits"
_OPEN = "…"
"""What stands where the person has to say something."""


class StartExample(Static, can_focus=True):
    """One thing that may be asked first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "choose", "Write it")]

    class Chosen(Message):
        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, words: str) -> None:
        super().__init__(plain(f"› {words}"), classes="example")
        self._words = words

    def action_choose(self) -> None:
        self.post_message(StartExample.Chosen(self._words))

    def on_click(self) -> None:
        self.action_choose()


class StartScreen(Vertical):
    def __init__(self, about: DeskInfo) -> None:
        super().__init__(id="start")
        self._about = about

    def compose(self) -> ComposeResult:
        yield Static(plain("What would you like to do?", "bold"))
        yield Static(_tools(self._about))
        for example in self._about.examples:
            yield StartExample(example_words(example))
        yield Static(plain(_KEYS, MUTED))


def example_words(example: ExamplePrompt) -> str:
    """The words of an example, with a place for each argument that it needs."""
    given = ", ".join(f"{line(each.name)} = {line(each.value) or _OPEN}" for each in example.inputs)
    return line(example.says) + (f": {given}" if given else "")


def _tools(about: DeskInfo) -> Content:
    names = [line(name, 40) for each in about.ensembles for name in each.names]
    if not names:
        return plain("No tools are available. To add tools from a file: handrail tui --tools my_tools.py", MUTED)
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    are = "is" if about.tools == 1 else "are"
    told = f"{count_text(about.tools, 'tool')} {are} available: {', '.join(names[:_NAMES])}{more}."
    return plain(f"{told} You approve every side effect before it runs.")
