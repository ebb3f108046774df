"""A question over a context as it is worked on: one line that changes on a terminal, one for each turn elsewhere."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from handrail.cli import text
from handrail.cli.output.view import answer_json, tell
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.events import Event, Notice, ReplyFailed
from handrail.core.ports import Approver
from handrail.rlm.progress import (
    CellRan,
    CellRunning,
    IterationStarted,
    Progress,
    QueriesInFlight,
    ReplRebuilt,
    RunSpent,
)

_CODE_LINES = 40
_USUAL_WIDTH = 80
_OFTEN = 0.05
"""Seconds between two looks at how many queries there are: there may be thousands, and a terminal may be slow."""


class RlmLiveDisplay:
    """A `Watch`. It writes to stderr; with `as_json` every event is a line on stdout."""

    def __init__(
        self,
        *,
        as_json: bool,
        code: bool = False,
        terminal: bool | None = None,
        width: Callable[[], int] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._as_json = as_json
        self._code = code
        self._terminal = _is_terminal() if terminal is None else terminal
        """Whether a line can be written over."""
        self._width = width or _width
        self._now = now
        self._began = now()
        self._passing = ""
        """The line that stands on the terminal and will be written over."""
        self._drawn = -_OFTEN
        """When it was last written."""
        self._asking = 0
        """Questions that a person reads now."""
        self._held: list[str] = []
        """What is told when they have answered."""
        self._turn = ""
        self._doing = ""
        self._queries = (0, 0)
        self._tokens = 0
        self._cost: float | None = None
        self.begun = False
        """Whether the record has something of the question."""
        self.waiting: dict[str, Confirmation] = {}
        """Questions to a person that are left for later, by request."""

    async def __call__(self, event: Event | Progress) -> None:
        self._note(event)
        if self._as_json:
            answer_json(event)
        else:
            self._show(event)

    def _note(self, event: Event | Progress) -> None:
        match event:
            case IterationStarted(index=index, of=of, depth=0):
                self.begun, self._doing = True, "the model writes"
                self._turn = f"turn {index}/{of}" if index <= of else "the last word"
            case CellRunning(block=block, of=of, depth=0):
                self.begun = True  # a run that is taken up may begin with code
                self._doing = "code runs" if of == 1 else f"code {block}/{of} runs"
            case CellRan(depth=0):
                self._doing = "the model reads"
            case QueriesInFlight(in_flight=under_way, done=done):
                self._queries = under_way, done
            case RunSpent(tokens=tokens, cost=cost):
                self._tokens, self._cost = tokens, cost

    def _show(self, event: Event | Progress) -> None:
        match event:
            case IterationStarted(depth=0):
                if not self._terminal:
                    self._tell_line(self.line())
            case CellRunning(code=code, depth=0) if self._code:
                self._tell_line("\n".join(f"  │ {text.printable(line)}" for line in _cut(code.splitlines())))
            case CellRan(ending="ok", seconds=seconds, depth=0) if self._code:
                self._tell_line(f"  ran for {text.duration_text(int(seconds * 1e6))}")
            case CellRan(ending=ending, depth=0) if ending != "ok":
                self._tell_line(f"  its code ended with: {ending}; the model is told")
            case ReplRebuilt(whole=whole):
                said = "made again" if whole else "made again as far as could be"
                self._tell_line(f"! the variables of the REPL were {said}")
            case Notice(text=words):
                self._tell_line(f"! {text.printable(words)}")
            case ReplyFailed(words=words) if words:
                self._tell_line(f"! {text.printable(words)}")
            case QueriesInFlight() | RunSpent() if self._now() - self._drawn < _OFTEN:
                return
        self._status()

    def line(self, width: int | None = None) -> str:
        """The state in one line. If there is too little room, the current step is left out first."""
        under_way, done = self._queries
        asked = f"{text.count_text(done + under_way, 'query')}, {under_way} in flight" if under_way or done else ""
        cost = "" if self._cost is None else f"${self._cost:.4f}"
        used = (asked, text.count_text(self._tokens, "token"), cost, _minutes(int(self._now() - self._began)))
        whole = _joined(self._turn, self._doing, *used)
        if width is None or len(whole) <= width:
            return whole
        return text.short(_joined(self._turn, *used), width)

    # ── the line that changes ────────────────────────────────────────────────────────

    async def keep_time(self) -> None:
        """Let the seconds go on while nothing happens, until this is cancelled."""
        while self._terminal and not self._as_json:
            await asyncio.sleep(1)
            self._status()

    def _status(self) -> None:
        if self._terminal and self.begun and not self._asking:
            line = self.line(self._width() - 1)
            if line != self._passing:
                click.echo(f"\r\x1b[K{line}", nl=False, err=True)
                self._passing, self._drawn = line, self._now()

    def _tell_line(self, line: str) -> None:
        if self._asking:
            self._held.append(line)
            return
        self.end_line()
        tell(line)

    def end_line(self) -> None:
        """Let whatever comes next begin on a line of its own."""
        if self._passing:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._passing = ""

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While a person reads a question and answers it, nothing is written in between."""
        self.end_line()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                held, self._held = self._held, []
                for line in held:
                    tell(line)


@dataclass(frozen=True, slots=True)
class DisplayPausingApprover:
    """An `Approver` in front of another: it has the line give way to the question, and notes what is left for later."""

    inner: Approver
    live: RlmLiveDisplay

    async def decide(self, question: Confirmation) -> Decision:
        with self.live.silent():
            decision = await self.inner.decide(question)
        if isinstance(decision, Defer):
            self.live.waiting[question.request] = question
        else:
            self.live.waiting.pop(question.request, None)
        return decision


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _width() -> int:
    """The width of the terminal that the line is on; stdout may be something else."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"


def _cut(lines: list[str]) -> list[str]:
    left = len(lines) - _CODE_LINES
    return lines if left <= 1 else [*lines[:_CODE_LINES], f"… {left} lines more"]
