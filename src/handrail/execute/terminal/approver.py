"""A person at the terminal who allows a call, denies it, or changes what will run. One question at a time."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.cross_loop_lock import CrossLoopLock
from handrail.core.display import exact_json, printable, printable_lines, read_edited_object
from handrail.core.errors import UsageError
from handrail.core.secret_pointers import restore_masked
from handrail.execute.terminal.forms import fill_form
from handrail.execute.terminal.line_reader import has_terminal, read_line, read_word, tell
from handrail.tools.registry import RegisteredTools

_TERMINAL = CrossLoopLock()
"""A process has one terminal: a second question there would take the answer to the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalApprover:
    """An `Approver` that asks the person at the terminal: yes, no, edit, or later.

    It shows exactly what will run; fields that are declared as secret are masked. Without a terminal it
    defers: the call is answered `needs_confirmation`. It needs Linux or macOS.
    """

    by: str = ""
    """The name that goes on record for a decision; by default the login name."""
    tools: RegisteredTools | None = None
    """With these, edited arguments that do not fit are asked for again. `approver="terminal"` knows those of its
    executor."""

    async def decide(self, question: Confirmation) -> Decision:
        if not has_terminal():
            return Defer()
        async with _TERMINAL:
            return await self._ask(question, self.by or _login_name())

    async def _ask(self, question: Confirmation, by: str) -> Decision:
        if question.form is not None:
            return await fill_form(question, by)
        if not question.definition:
            return await _of_server(question, by)
        tell()
        tell(f"{printable(question.tool)} asks to run{_for(question)} with these arguments:")
        _show(question)
        while True:
            match await read_word("Allow it? [y/N/e(dit)/l(ater)] "):
                case "y" | "yes":
                    return Allow(by)
                case "e" | "edit":
                    edited = await self._edit(question)
                    if edited is not None:
                        return Edit(by, edited)
                case "l" | "later":
                    return Defer()
                case _:
                    return Deny(by, await read_line("Why? (the model reads it; may be empty) "))

    async def _edit(self, question: Confirmation) -> dict[str, Any] | None:
        """Other arguments that fit the tool, or None to ask again."""
        written = await _written(question.shown)
        if not written:
            return None
        try:
            # A secret was not shown, so it cannot have been changed where its mask still stands.
            edited: dict[str, Any] = restore_masked(read_edited_object(written), question.shown, question.arguments)
        except UsageError as error:
            tell(f"  {printable(str(error))}")
            return None
        problems = self._problems(question.tool, edited)
        for problem in problems:
            tell(f"  {printable(problem)}")
        return None if problems else edited

    def _problems(self, tool: str, edited: dict[str, Any]) -> list[str]:
        if self.tools is None or tool not in self.tools:
            return []  # the executor checks them in any case
        return list(self.tools.find(tool).validator.problems(edited))


async def _of_server(question: Confirmation, by: str) -> Decision:
    """The decision on a question that is about no tool: a server asks for permission."""
    tell()
    tell(printable_lines(question.description))
    _show(question)
    match await read_word("Allow it? [y/N/l(ater)] "):
        case "y" | "yes":
            return Allow(by)
        case "l" | "later":
            return Defer()
    return Deny(by)


def _for(question: Confirmation) -> str:
    """The agents for which the question is asked, if agents led to the call."""
    return f" for {printable(' → '.join(question.agents))}" if question.agents else ""


def _show(question: Confirmation) -> None:
    for line in exact_json(question.shown).split("\n"):
        tell(f"  {line}")
    if question.why:
        tell(f"You are asked because {printable(question.why)}.")


async def _written(shown: dict[str, Any]) -> str:
    """What a person makes of the arguments, in their editor or on one line."""
    if editor := os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        return await asyncio.to_thread(_edited_in, editor, exact_json(shown))
    return await read_line("Other arguments, as JSON on one line: ")


def _edited_in(editor: str, text: str) -> str:
    """The text as it was saved in the editor; nothing if it was not changed, or the editor failed."""
    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        file = Path(folder, "arguments.json")
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
            written = file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            tell(f"  the editor {printable(editor)} failed: {printable(str(error))}")
            return ""
    return "" if written == text else written


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "the person at the terminal"
