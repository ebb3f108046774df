"""A conversation at the command line: what was said so far, and one turn after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from handrail.app import App, open_model
from handrail.cli import text
from handrail.cli.chat.line_input import ChatLineInput
from handrail.cli.chat.slash_commands import do, is_command
from handrail.cli.lazy_groups import one_line
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.cli.output.view import tell
from handrail.cli.run_driver import tell_waiting
from handrail.core.context import Context
from handrail.core.errors import HandrailError
from handrail.core.ids import new_id
from handrail.core.messages import Conversation, UserMessage
from handrail.sessions.llm import LLM


class CliChat:
    """What the commands of a conversation work on."""

    def __init__(
        self,
        app: App,
        llm: LLM,
        run: str,
        conversation: Conversation,
        *,
        stack: AsyncExitStack,
        resume_line: Callable[[str], str],
        as_json: bool,
        files: Path | None = None,
    ) -> None:
        self.app = app
        self.llm = llm
        self.run = run
        self.conversation = conversation
        self.over = False
        self.waits = False
        """Whether a call of this run waits for a person's word."""
        self.next_words = ""
        """What stands on the next line already."""
        self._runner = app.runner(llm)
        self._stack = stack
        self._resume_line = resume_line
        self._as_json = as_json
        self._files = files

    def talk(self, loop: asyncio.Runner, lines: ChatLineInput) -> None:
        """Until the person leaves."""
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
                words = do(self, loop, said) if is_command(said) else said.replace("//", "/", said.startswith("//"))
                if words is not None and words.strip():
                    self._turn(loop, words)
            except KeyboardInterrupt:
                tell("\n(stopped)")
            except HandrailError as error:
                tell(f"handrail: {one_line(error)}")

    def _turn(self, loop: asyncio.Runner, words: str) -> None:
        if loop.run(self.app.refresh()):
            tell("The configuration has changed; /reload goes on with the tools that it has now.")
        self.conversation = self.conversation.say(words, at=self.app.executor.now())
        self.answer(loop)

    def answer(self, loop: asyncio.Runner) -> None:
        """Let the model answer what was said last."""
        live = LiveRunPrinter(as_json=self._as_json, files=self._files)
        try:
            loop.run(self._answer(live))
        except KeyboardInterrupt:
            live.end_line()
            tell("(stopped; /undo takes the turn back)")
        finally:
            live.end_line()
        if live.unsaved:
            tell(f"Save what the model made with: handrail replay {text.printable(self.run)} --files FOLDER")
        if live.waiting:
            self.waits = True
            tell_waiting(live.waiting.values(), self._resume_line(self.run))

    async def _answer(self, live: LiveRunPrinter) -> None:
        def follow(conversation: Conversation) -> None:
            self.conversation = conversation

        run = self._runner.run(self.conversation, Context(run=self.run), live, follow=follow)
        self.conversation = await run

    def undo(self) -> str | None:
        """Take back the last thing the person said and all that came of it; its words, or None if there are none."""
        for at in range(len(self.conversation) - 1, -1, -1):
            message = self.conversation.messages[at]
            if isinstance(message, UserMessage):
                self.conversation = self.conversation.upto(at)
                return message.text
        return None

    async def use(self, name: str) -> None:
        """Go on with another model."""
        self.llm = await self._stack.enter_async_context(open_model(self.app.config, name))
        self._runner = self.app.runner(self.llm)

    async def fork(self, run: str) -> None:
        """Go on in a run of its own, from what was said so far; the old one ends here."""
        await self.leave("forked")
        self.run = run

    async def renew(self) -> None:
        """Go on in a run of its own, with the tools and settings that there are now."""
        self._runner = self.app.runner(self.llm)
        await self.fork(new_id("run"))

    async def leave(self, reason: str = "done") -> None:
        """End the run, unless one of its calls waits."""
        if not self.waits:
            await self.app.executor.finish(self.run, reason)
        self.waits = False
