"""A conversation at the command line: one of a desk, one turn after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from handrail.cli import text
from handrail.cli.chat.line_input import ChatLineInput
from handrail.cli.chat.slash_commands import do, is_command
from handrail.cli.lazy_groups import one_line
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.cli.output.view import tell
from handrail.cli.run_driver import tell_waiting
from handrail.core.errors import HandrailError
from handrail.desk.context import DeskTerms
from handrail.desk.desk import Desk
from handrail.desk.turns import last_spoken_index

TERMS = DeskTerms(saves=False, ends_turns=False, on_wait="tell")
"""The terms of a chat: nothing is saved before /save, and the conversation is one run, which keeps its tools until
/reload."""


class CliChat:
    """What the commands of a conversation work on."""

    def __init__(
        self, desk: Desk, run: str, *, resume_line: Callable[[str], str], as_json: bool, files: Path | None = None
    ) -> None:
        self.desk = desk
        self.app = desk.app
        self.run = run
        """The conversation at the desk, and its run in the record."""
        self.over = False
        self.waits = False
        """Whether a call of this run waits for a person's decision."""
        self.next_words = ""
        """What stands on the next line already."""
        self._resume_line = resume_line
        self._as_json = as_json
        self._files = files

    def talk(self, loop: asyncio.Runner, lines: ChatLineInput) -> None:
        """Takes turns until the person leaves."""
        while not self.over:
            start, self.next_words = self.next_words, ""
            try:
                said = lines.next(start=start)
            except KeyboardInterrupt:
                tell("\n(Ctrl-D or /quit leaves)")
                continue
            if said is None:
                return
            try:
                # A second Ctrl-C leaves a turn that has not ended yet; nothing of it runs while a line is read.
                loop.run(self.desk.stop(self.run))
                words = do(self, loop, said) if is_command(said) else said.replace("//", "/", said.startswith("//"))
                if words is not None and words.strip():
                    self._turn(loop, words)
            except KeyboardInterrupt:
                tell("\n(stopped)")
            except HandrailError as error:
                tell(f"handrail: {one_line(error)}")

    def _turn(self, loop: asyncio.Runner, words: str) -> None:
        if loop.run(self.app.refresh()):
            tell("The configuration has changed; /reload continues with its new tools.")
        self.answer(loop, words)

    def answer(self, loop: asyncio.Runner, words: str | None = None) -> None:
        """Say these words, or let the model answer what was said last."""
        live = LiveRunPrinter(as_json=self._as_json, files=self._files, markdown=True)
        try:
            loop.run(self._answer(live, words))
        except KeyboardInterrupt:
            live.end_line()
            tell("(stopped; /undo removes the turn)")
        finally:
            live.end_line()
        if live.unsaved:
            tell(f"Save what the model made with: handrail replay {text.printable(self.run)} --files FOLDER")
        if live.waiting:
            self.waits = True
            tell_waiting(live.waiting.values(), self._resume_line(self.run))

    async def _answer(self, live: LiveRunPrinter, words: str | None) -> None:
        try:
            if words is None:
                await self.desk.again(self.run, emit=live)
            else:
                await self.desk.say(self.run, words, emit=live)
            await self.desk.finished(self.run)
        except asyncio.CancelledError:
            await self.desk.stop(self.run)
            raise

    async def undo(self) -> str | None:
        """Take back the last thing the person said and all that came of it; its words, or None if there are none."""
        at = last_spoken_index((await self.desk.conversation(self.run)).messages)
        return None if at < 0 else await self.desk.undo(self.run, at)

    async def fork(self) -> None:
        """Go on in a run of its own, from what was said so far; the old one ends here."""
        forked = await self.desk.fork(self.run)
        await self.leave("forked")
        self.run = forked

    async def leave(self, reason: str = "done") -> None:
        """End the run, unless one of its calls waits."""
        await self.desk.stop(self.run)
        if not self.waits:
            await self.app.executor.finish(self.run, reason)
        self.waits = False
