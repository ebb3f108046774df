"""Lines that a person types: with history and editing on a terminal, as they are from a pipe."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from handrail.cli.output.view import tell

_MOST = 1000
_FENCE = '"""'


class ChatLineInput:
    """What is said next. Several lines are one message: each but the last ends in a backslash, or all in quotes."""

    def __init__(self, read: Callable[[str, str], str]) -> None:
        self._read = read

    @classmethod
    def here(cls, history: Path) -> ChatLineInput:
        """From the terminal if there is one, with what was typed before in that file; else from stdin."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return cls(_piped)
        if importlib.util.find_spec("readline") is None:
            return cls(lambda prompt, start: input(prompt))
        return cls(_ReadlineHistory(history))

    def next(self, prompt: str = "> ", start: str = "") -> str | None:
        """A message, or None at the end. `start` stands on the line already, to be changed.

        Raises:
            KeyboardInterrupt: The person gave up on this one.
        """
        try:
            line = self._read(prompt, start)
            if line.strip() == _FENCE:
                return self._fenced()
            lines = [line]
            while lines[-1].endswith("\\"):
                lines[-1] = lines[-1][:-1]
                lines.append(self._read("… ", ""))
        except EOFError:
            return None
        return "\n".join(lines)

    def _fenced(self) -> str:
        lines: list[str] = []
        while (line := self._read("… ", "")).strip() != _FENCE:
            lines.append(line)
        words = "\n".join(lines)
        return f"/{words}" if words.startswith("/") else words  # in quotes nothing is a command


def _piped(prompt: str, start: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


class _ReadlineHistory:
    """readline, and a file for what was typed."""

    def __init__(self, history: Path) -> None:
        import readline

        self._readline = readline
        self._history = history
        readline.set_history_length(_MOST)
        if history.is_file():
            readline.read_history_file(history)

    def __call__(self, prompt: str, start: str) -> str:
        self._readline.set_startup_hook(lambda: self._readline.insert_text(start))
        try:
            line = input(prompt)
        except EOFError:
            tell()  # what comes next does not stand behind the prompt
            raise
        finally:
            self._readline.set_startup_hook(None)
        if line:
            self._history.touch(mode=0o600)
            self._readline.write_history_file(self._history)
        return line
