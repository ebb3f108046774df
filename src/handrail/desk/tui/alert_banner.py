"""A tool or a turn failed: said at once, in a banner over the prompt, with the ways to go on."""

from __future__ import annotations

from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Static

from handrail.desk.tui.formatting import line, plain
from handrail.desk.values import Alert

Way = Literal["undo", "edit", "on", "dismiss"]
_TITLES = {"tool": "failed", "model": "The model failed", "limit": "A limit was reached", "stopped": "Stopped"}
_LINES = 3


class AlertBanner(Vertical):
    class Chosen(Message):
        def __init__(self, alert: Alert, way: Way) -> None:
            super().__init__()
            self.alert = alert
            self.way: Way = way

    def __init__(self) -> None:
        super().__init__(id="alert")
        self.alert: Alert | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="alert-says")
        with Horizontal(classes="buttons"):
            yield Button("Undo the turn", id="undo", compact=True)
            yield Button("Edit and continue", id="edit", compact=True)
            yield Button("Go on", id="on", compact=True)
            yield Button("Dismiss", id="dismiss", compact=True)
            yield Static("F6 jumps here", classes="note")

    def on_mount(self) -> None:
        self.display = False

    def show(self, alert: Alert | None) -> None:
        """Say it; None once it is answered. The bell rings once for each."""
        if alert is not None and (self.alert is None or self.alert.id != alert.id):
            self.app.bell()
        self.alert = alert
        self.display = alert is not None
        if alert is not None:
            self.query_one("#alert-says", Static).update(plain(alert_text(alert), "$text-error"))

    @on(Button.Pressed)
    def chosen(self, event: Button.Pressed) -> None:
        event.stop()
        if self.alert is not None:
            ways: dict[str | None, Way] = {"undo": "undo", "edit": "edit", "on": "on", "dismiss": "dismiss"}
            self.post_message(AlertBanner.Chosen(self.alert, ways[event.button.id]))


def alert_text(alert: Alert) -> str:
    """What failed and why, in a few lines."""
    title = f"{line(alert.tool, 60)} failed" if alert.tool else _TITLES[alert.kind]
    outcome = f" ({alert.outcome})" if alert.outcome is not None and alert.outcome != "failed" else ""
    words = "\n".join(line(each, 200) for each in alert.message.strip().splitlines()[:_LINES])
    return f"⚠ {title}{outcome}: {words}"
