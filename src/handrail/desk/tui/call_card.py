"""The pane of one call: what is asked, how far it is, how it ended. Folded it is one line; an error stays unfolded."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import ProgressBar, Static

from handrail.core.display import exact_json
from handrail.desk.tui.formatting import MUTED, duration_text, inline, line, plain, sign_of
from handrail.desk.values import ClippedText, ConversationItem, LiveCall

_LINES = 60
"""The most lines of an unfolded result, until the person asks for the whole."""
_ARGUMENTS = 8_000
_TICK = 1.0
"""Seconds between two looks at how long a call has been running."""
_ERROR_LINES = 6
_ERROR_WIDTH = 400
_STAGES = {
    # stage      sign, says
    "writing": ("✎", "is being written"),
    "asked": ("?", "waits for your approval"),
    "running": ("▶", "running"),
}


class CallCardContent(Struct, frozen=True, kw_only=True):
    """A call as its pane shows it, wherever it is known from."""

    call_id: str
    name: str
    arguments: Any = None
    written: str = ""
    stage: str = "writing"
    current: float | None = None
    total: float | None = None
    says: str = ""
    outcome: str | None = None
    error: str = ""
    result: ClippedText | None = None
    index: int | None = None
    """The number of the message with the result, once there is one."""
    duration_us: int | None = None
    begun: int = 0
    """The time at which it began to run, in milliseconds since 1970; 0 if that is not known."""
    reused: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def live(cls, call: LiveCall) -> CallCardContent:
        return cls(
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
            written=call.written,
            stage=call.stage,
            begun=call.begun,
            current=call.current,
            total=call.total,
            says=call.says,
            outcome=call.outcome,
            error=call.error,
            result=call.result,
            duration_us=call.duration_us,
            notes=call.notes,
        )

    @classmethod
    def called(cls, item: ConversationItem) -> CallCardContent:
        """A call of a conversation that has no answer yet, as far as is known here."""
        return cls(call_id=item.call_id, name=item.name, arguments=item.arguments, written=item.written, stage="open")

    def answered(self, item: ConversationItem) -> CallCardContent:
        return replace(
            self,
            stage="done",
            outcome=item.outcome,
            error=item.error,
            result=item.text,
            index=item.index,
            duration_us=item.duration_us,
            reused=item.reused_from is not None,
            notes=item.notes,
        )


class CallCard(Vertical, can_focus=True):
    """Enter folds and unfolds it, `w` shows the whole result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold"),
        Binding("w", "whole", "Whole"),
    ]

    class Whole(Message):
        """The person wants to read all of the result."""

        def __init__(self, shown: CallCardContent) -> None:
            super().__init__()
            self.shown = shown

    def __init__(self, shown: CallCardContent, *, index: int | None = None, unfolded: bool = False) -> None:
        super().__init__(classes="card")
        self.shown = shown
        self.index = index
        """Of the message with the call, once it is one."""
        self.unfolded = unfolded

    def compose(self) -> ComposeResult:
        yield Static(classes="head")
        yield ProgressBar(show_eta=False, classes="progress")
        yield Static(classes="says")
        yield Static(classes="error")
        yield Static(classes="body")

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(_TICK, self._tick)

    def _tick(self) -> None:
        if self.shown.stage == "running":
            self._draw_head()

    def on_resize(self) -> None:
        self._draw_head()

    def _draw_head(self) -> None:
        self.query_one(".head", Static).update(_head(self.shown, self.unfolded, self.size.width or 78))

    def show(self, shown: CallCardContent) -> None:
        self.shown = shown
        if self.is_mounted:
            self._draw()

    def action_fold(self) -> None:
        self.unfolded = not self.unfolded
        self._draw()

    def action_whole(self) -> None:
        if self.shown.result is not None:
            self.post_message(CallCard.Whole(self.shown))

    def _draw(self) -> None:
        shown = self.shown
        failed = shown.outcome not in (None, "ok")
        self.set_class(failed, "failed")
        self.set_class(shown.stage == "asked", "asked")
        self._draw_head()
        bar = self.query_one(ProgressBar)
        bar.display = shown.stage == "running" and shown.current is not None
        bar.update(total=shown.total, progress=shown.current or 0)
        says = shown.says if shown.stage == "running" else "; ".join(shown.notes)
        self._fill(".says", plain(line(says, 200)) if says else None)
        self._fill(".error", _error(shown) if failed and not self.unfolded else None)
        self._fill(".body", _body(shown) if self.unfolded else None)

    def _fill(self, place: str, content: Content | None) -> None:
        static = self.query_one(place, Static)
        static.display = content is not None
        static.update(content or "")


def _head(shown: CallCardContent, unfolded: bool, width: int) -> Content:
    """The card in one line: sign, name, arguments as far as there is room, and how it ended."""
    if shown.outcome is not None:
        sign, style = sign_of(shown.outcome)
        took = "" if shown.duration_us is None else f" {duration_text(shown.duration_us)}"
        end = f"{shown.outcome}{', reused' if shown.reused else ''}{took}"
    else:
        sign, end = _STAGES.get(shown.stage, ("…", "no answer"))
        if shown.stage == "running" and shown.begun:
            end += f" {max(0, round(time.time() - shown.begun / 1000))} s"
        style = "$text-accent" if shown.stage != "open" else "$text-warning"
    name = line(shown.name, 40)
    fold = "▾" if unfolded else "▸"
    room = width - len(name) - len(end) - 10
    given = inline(shown.arguments if shown.arguments is not None else shown.written, room) if room > 8 else ""
    return Content.assemble(f"{fold} ", (f"{sign} ", style), (name, "bold"), "  ", (given, MUTED), "  ", (end, style))


def _error(shown: CallCardContent) -> Content | None:
    """Why it failed, in its own words."""
    said = "" if shown.result is None else shown.result.text
    lines = said.strip().splitlines()
    cut = [*lines[:_ERROR_LINES], "…"] if len(lines) > _ERROR_LINES else lines
    words = "\n".join(each if len(each) <= _ERROR_WIDTH else f"{each[:_ERROR_WIDTH]}…" for each in cut)
    told = f"{shown.error}: {words}" if shown.error and shown.error != shown.outcome else words
    return plain(told, "$text-error") if told else None


def _body(shown: CallCardContent) -> Content:
    arguments = shown.written if shown.arguments is None else shown.written or shown.arguments
    given = arguments if isinstance(arguments, str) else exact_json(arguments)
    cut = f"\n… the first {_ARGUMENTS:,} of {len(given):,} characters" if len(given) > _ARGUMENTS else ""
    pieces = [plain("arguments", "bold"), plain(f"\n{given[:_ARGUMENTS]}{cut}")]
    if shown.result is not None:
        pieces += [plain("\nresult", "bold"), plain("\n" + _first(shown.result))]
    return Content.assemble(*pieces)


def _first(result: ClippedText) -> str:
    lines = result.text.split("\n")
    text = "\n".join(lines[:_LINES])
    if len(lines) <= _LINES and not result.whole:
        return text
    return f"{text}\n… w shows all {max(result.whole, len(result.text)):,} characters"
