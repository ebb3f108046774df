"""A person at the terminal who says yes, no, or changes what will run. One question at a time."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any

import click

from handrail.cli import text
from handrail.cli.output.view import tell
from handrail.cli.terminal.forms import fill_form
from handrail.cli.terminal.line_reader import read_line, read_word
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.display import exact_json, read_edited_object
from handrail.core.errors import UsageError
from handrail.core.secret_pointers import restore_masked
from handrail.tools.registry import RegisteredTools


@dataclass(frozen=True, slots=True)
class TerminalApprover:
    """An `Approver`. It shows exactly what will run; fields that are declared as secret are masked."""

    tools: RegisteredTools
    by: str
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def decide(self, question: Confirmation) -> Decision:
        async with self._one_at_a_time:
            if question.form is not None:
                return await fill_form(question, self.by)
            if question.tool not in self.tools:
                return await _of_server(question, self.by)
            tell()
            tell(f"{text.printable(question.tool)} asks to run with these arguments:")
            _show(question.shown)
            if question.why:
                tell(f"You are asked because {text.printable(question.why)}.")
            while True:
                match await read_word("Allow it? [y/N/e(dit)/l(ater)] "):
                    case "y" | "yes":
                        return Allow(self.by)
                    case "e" | "edit":
                        edited = await self._edit(question)
                        if edited is not None:
                            return Edit(self.by, edited)
                    case "l" | "later":
                        return Defer()
                    case _:
                        return Deny(self.by, await read_line("Why? (the model reads it; may be empty) "))

    async def _edit(self, question: Confirmation) -> dict[str, Any] | None:
        """Other arguments that fit the tool, or None to ask again."""
        written = await _written(question.shown)
        if not written:
            return None
        try:
            # A secret was not shown, so it cannot have been changed where its mask still stands.
            edited: dict[str, Any] = restore_masked(read_edited_object(written), question.shown, question.arguments)
        except UsageError as error:
            tell(f"  {text.printable(str(error))}")
            return None
        problems = self.tools.find(question.tool).validator.problems(edited)
        for problem in problems:
            tell(f"  {text.printable(problem)}")
        return None if problems else edited


async def _of_server(question: Confirmation, by: str) -> Decision:
    """A question that is about no tool: a server asks for a word."""
    tell()
    tell(text.printable_lines(question.description))
    _show(question.shown)
    if question.why:
        tell(f"You are asked because {text.printable(question.why)}.")
    match await read_word("Allow it? [y/N/l(ater)] "):
        case "y" | "yes":
            return Allow(by)
        case "l" | "later":
            return Defer()
    return Deny(by)


def _show(arguments: dict[str, Any]) -> None:
    for line in exact_json(arguments).split("\n"):
        tell(f"  {line}")


async def _written(shown: dict[str, Any]) -> str:
    """What a person makes of the arguments, in their editor or on one line."""
    if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        written = await asyncio.to_thread(click.edit, exact_json(shown), extension=".json")
        return (written or "").strip()
    return await read_line("Other arguments, as JSON on one line: ")
