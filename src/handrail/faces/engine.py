"""What a session runs on: an executor and a runner over a journal, made in the event loop that first uses them.

A session that was given no journal gets one in a folder that goes with it, so that
what it did can be verified while it lives.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import Emit
from handrail.core.ids import NewId
from handrail.core.messages import Conversation
from handrail.core.model import ModelRequest, ToolChoice
from handrail.core.ports import Approver, Authoriser, Clock, Embedder, Journal, Model, Spill
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.run.runner import OnError, Runner
from handrail.run.transcript import Follow
from handrail.tools.registry import RegisteredTools


class Parts(TypedDict, total=False):
    """What an executor may be given besides tools, policy, journal and approver."""

    authoriser: Authoriser
    spill: Spill
    embedder: Embedder
    clock: Clock
    new_id: NewId


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything about a session but what was said in it. A fork has the same."""

    model: Model
    tools: RegisteredTools
    defaults: ModelRequest
    journal: Journal | Path | None
    """One that is open, the file of one, or none: then one is kept as long as the session."""
    approver: Approver | None
    policy: Policy
    limits: Limits
    offering: Offering
    on_error: OnError
    context: Context
    parts: Parts


class Engine:
    """One executor and one runner for one run."""

    def __init__(self, setup: Setup, run: str, journal: Journal, *, own: bool, folder: Path | None) -> None:
        self.run_id = run
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._journal = journal
        self._own = own
        self._executor = Executor(
            setup.tools, policy=setup.policy, approver=setup.approver, journal=journal, **setup.parts
        )
        self._runner = Runner(
            setup.model,
            self._executor,
            setup.limits,
            on_error=setup.on_error,
            defaults=setup.defaults,
            offering=setup.offering,
        )
        self._context = replace(setup.context, run=run)
        self._discard = None if folder is None else weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @classmethod
    async def open(cls, setup: Setup, run: str) -> Engine:
        given = setup.journal
        if given is not None and not isinstance(given, Path):
            return cls(setup, run, given, own=False, folder=None)
        from handrail.proof.journal import SqliteJournal  # SQLite and cryptography load when they are used

        async with AsyncExitStack() as undo:
            folder = None
            if given is None:
                folder = Path(tempfile.mkdtemp(prefix="handrail-"))
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
                given = folder / "journal.db"
            journal = await undo.enter_async_context(await SqliteJournal.open(given))
            engine = cls(setup, run, journal, own=True, folder=folder)
            undo.pop_all()
        return engine

    @property
    def path(self) -> Path | None:
        """Of the journal, if it is a file."""
        return getattr(self._journal, "path", None)

    def turn(self) -> asyncio.Lock:
        """Held while one prompt is answered: two at once would each forget the other.

        Raises:
            UsageError: This is not the loop that the session works in.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError(
                "this session works in another event loop; use its blocking methods or its async ones, not both"
            )
        return self._turn

    async def run(
        self, conversation: Conversation, emit: Emit, tool_choice: ToolChoice, follow: Follow
    ) -> Conversation:
        return await self._runner.run(conversation, self._context, emit, tool_choice=tool_choice, follow=follow)

    async def aclose(self) -> None:
        """End the run in the record, and let go of everything."""
        async with AsyncExitStack() as stack:
            if self._discard is not None:
                stack.callback(self._discard)
            if self._own:
                stack.push_async_callback(self._journal.aclose)
            stack.push_async_callback(self._executor.aclose)
            await self._executor.finish(self.run_id)
