"""Where a person writes. Enter sends; Ctrl+J, or Shift+Enter where the terminal tells it, begins a new line."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea

_NEW_LINE = ("ctrl+j", "shift+enter", "alt+enter")


class PromptArea(TextArea):
    class Sent(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            id="prompt", compact=True, highlight_cursor_line=False, placeholder="Say something. Enter sends, F1 helps."
        )

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "enter":
                event.stop()
                event.prevent_default()
                if self.text.strip():
                    self.post_message(PromptArea.Sent(self.text))
            case key if key in _NEW_LINE:
                event.stop()
                event.prevent_default()
                self.insert("\n")
            case _:
                await super()._on_key(event)

    def begin(self, text: str) -> None:
        """Put words there, to be changed."""
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.focus()
