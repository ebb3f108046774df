"""A question over a context as it is worked on: one line that changes on a terminal, one for each turn elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from handrail.cli import text
from handrail.cli.view import answer_json, tell
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Event, Notice, ReplyFailed
from handrail.rlm.progress import CellRan, CellRunning, IterationStarted, Progress, QueriesInFlight, Rebuilt, Spent

_CODE_LINES = 6


class RlmLive:
    """A `Watch`. It writes to stderr; with `as_json` every event is a line on stdout."""

    def __init__(
        self,
        *,
        as_json: bool,
        code: bool = False,
        terminal: bool | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._as_json = as_json
        self._code = code
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._now = now
        self._began = now()
        self._passing = False
        self._turn = ""
        self._doing = ""
        self._queries = (0, 0)
        self._tokens = 0
        self._cost: float | None = None
        self.run = ""
        """Of the question itself, once it has begun."""
        self.waiting: dict[str, ConfirmationRequested] = {}

    async def __call__(self, event: Event | Progress) -> None:
        self._note(event)
        if self._as_json:
            answer_json(event)
        else:
            self._show(event)

    def _note(self, event: Event | Progress) -> None:
        match event:
            case IterationStarted(run=run, index=index, of=of, depth=0):
                self.run, self._turn, self._doing = run, f"turn {index}/{of}", "the model writes"
            case CellRunning(block=block, of=of, depth=0):
                self._doing = "code runs" if of == 1 else f"code {block}/{of} runs"
            case CellRan(depth=0):
                self._doing = "the model reads"
            case QueriesInFlight(in_flight=under_way, done=done):
                self._queries = under_way, done
            case Spent(tokens=tokens, cost=cost):
                self._tokens, self._cost = tokens, cost
            case ConfirmationRequested():
                self.waiting[event.request] = event
            case ConfirmationAnswered():
                self.waiting.pop(event.request, None)

    def _show(self, event: Event | Progress) -> None:
        match event:
            case IterationStarted(depth=0):
                if not self._terminal:
                    tell(self.line)
            case CellRunning(code=code, depth=0) if self._code:
                self._beside("\n".join(f"  │ {text.visible(line)}" for line in _cut(code.splitlines())))
            case CellRan(ending=ending, seconds=seconds, depth=0) if ending != "ok" or self._code:
                self._beside(f"  {ending}, {text.duration(int(seconds * 1e6))}")
            case Rebuilt(whole=whole):
                said = "made again" if whole else "made again as far as could be"
                self._beside(f"! the variables of the REPL were {said}")
            case Notice(text=words):
                self._beside(f"! {text.visible(words)}")
            case ReplyFailed(words=words) if words:
                self._beside(f"! {text.visible(words)}")
        self._status()

    @property
    def line(self) -> str:
        """How it stands."""
        under_way, done = self._queries
        asked = f"{text.count(done + under_way, 'query')}, {under_way} in flight" if under_way or done else ""
        cost = "" if self._cost is None else f"${self._cost:.4f}"
        parts = (
            self._turn,
            self._doing,
            asked,
            text.count(self._tokens, "token"),
            cost,
            f"{self._now() - self._began:.0f} s",
        )
        return " · ".join(part for part in parts if part)

    def _status(self) -> None:
        if self._terminal:
            click.echo(f"\r\x1b[K{text.short(self.line, 100)}", nl=False, err=True)
            self._passing = True

    def _beside(self, line: str) -> None:
        self.end_line()
        tell(line)

    def end_line(self) -> None:
        """Let whatever comes next begin on a line of its own."""
        if self._passing:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._passing = False


def _cut(lines: list[str]) -> list[str]:
    left = len(lines) - _CODE_LINES
    return lines if left <= 1 else [*lines[:_CODE_LINES], f"… {left} lines more"]
