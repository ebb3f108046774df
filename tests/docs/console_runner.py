"""Types the console blocks of a page that asks for it, as a reader would: `$ ` begins a command, the rest is output.

A command that ends with ` &` goes on until the page ends; what it has said by then is compared like the rest. A page
names a port, and a test takes any free one: from the line in which a server says where it is, its port is put in place
of the page's.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import Block, Page, matches

WANTED = "<!-- the console is typed -->"
OWN_HOME = "<!-- the console has a home of its own -->"
"""For a page whose commands change files of other programs in the home folder of a person."""
PORT = "8420"
PATIENCE = 180
_AT = re.compile(r"Serving at http://127\.0\.0\.1:(\d+)")


class Terminal:
    """In the environment of the tests, or in another one."""

    def __init__(self, page: Page, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._page = page
        self._folder = folder
        self._environment = environment
        self._port = "0"
        self._left: list[subprocess.Popen[str]] = []

    def here(self, text: str) -> str:
        """The text with the port that there is."""
        return text.replace(PORT, self._port)

    def type(self, block: Block) -> None:
        for command, shown in _commands(block.text):
            printed = self._background(command, shown) if command.endswith(" &") else self._run(command)
            if not matches(printed, self.here(shown)):
                pytest.fail(f"{self._page.name}:{block.line}: `{command}` prints this:\n{printed}", pytrace=False)

    def _run(self, command: str) -> str:
        done = subprocess.run(**self._how(command), timeout=PATIENCE, check=False)  # type: ignore[call-overload]  # below
        return str(done.stdout)

    def _background(self, command: str, shown: str) -> str:
        process = subprocess.Popen(**self._how(command.removesuffix(" &")))  # type: ignore[call-overload]  # below
        self._left.append(process)
        printed = ""
        for _ in shown.splitlines():
            printed += process.stdout.readline()
        if found := _AT.search(printed):
            self._port = found[1]
        return printed

    def _how(self, command: str) -> dict[str, object]:
        return {
            "args": ["bash", "-c", f"exec {self.here(command)}" if " > " not in command else self.here(command)],
            "cwd": self._folder,
            "env": self._own_environment() if self._environment is None else self._environment,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
        }

    def _own_environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        state = {"XDG_STATE_HOME": str(self._folder / "state")}
        if OWN_HOME in self._page.prose:
            state |= {"HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder / "config")}
        return {**os.environ, "PATH": path, **state}

    def close(self) -> None:
        for process in self._left:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


@contextmanager
def terminal_of(page: Page, folder: Path) -> Iterator[Terminal | None]:
    """One for the console blocks of a page, if it wants them typed."""
    if WANTED not in page.prose:
        yield None
        return
    terminal = Terminal(page, folder)
    try:
        yield terminal
    finally:
        terminal.close()


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown
