"""Interpreters of Monty, each in a worker process of its own that serves no other one after it."""

from __future__ import annotations

import asyncio
import atexit
import secrets
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from handrail.core.closing import ClosedOnExit
from handrail.core.errors import MissingExtra, SandboxUnavailable, UsageError
from handrail.core.installation import install_command
from handrail.core.ports import Clock, SystemClock
from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit
from handrail.sandbox.port import Kind, Repl, ReplLimits

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, ResourceLimits

    from handrail.sandbox.monty.repl import MontyRepl

MAX_WORKERS = 256
_PATIENCE = 30.0
_LETTING_GO = 0.02
_LETTING_GO_AT_THE_END = 0.1
_AT_THE_END = 5.0


class MontySandbox(ClosedOnExit):
    """A dump of one of its interpreters can be loaded where the same `key` is given; without one, only here."""

    def __init__(
        self,
        limits: ReplLimits = ReplLimits(),
        *,
        key: bytes | None = None,
        clock: Clock = SystemClock(),
        grace: float = 1.0,
    ) -> None:
        try:
            import pydantic_monty  # noqa: F401
        except ImportError as error:
            raise MissingExtra("the sandbox 'monty'", "rlm") from error
        self._limits = limits
        self._key = key or secrets.token_bytes(32)
        self._clock = clock
        self._grace = grace
        """Seconds after a limit in which a worker may still stop by itself."""
        self._pool: AsyncMonty | None = None
        self._starting = asyncio.Lock()
        self._repls: list[MontyRepl] = []
        self._is_closed = False

    @property
    def kind(self) -> Kind:
        return "monty"

    async def repl(self, *, seed: int = 0) -> Repl:
        from handrail.sandbox.monty.repl import MontyRepl

        pool = await self._started()
        checkout = partial(pool.checkout, limits=self._inside(), os_policy={"sleep": "call_host", "timezone": "utc"})
        repl = MontyRepl(checkout, self._limits, seed=seed, key=self._key, clock=self._clock, grace=self._grace)
        self._repls = [*(each for each in self._repls if not each.is_closed), repl]
        await repl.restart()
        return repl

    def _inside(self) -> ResourceLimits:
        return {
            "max_memory": self._limits.memory_bytes,
            "max_feed_duration_secs": self._limits.cell_seconds,
            # Counted here, for each cell: Monty counts for the life of a session.
            "max_suspensions": 2**62,
        }

    async def _started(self) -> AsyncMonty:
        if self._is_closed:
            raise UsageError("this sandbox was closed; make another one")
        async with self._starting:
            if self._pool is None:
                self._pool = await self._start()
                _open.add(ref(self))
            return self._pool

    async def _start(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty

        try:
            pool = AsyncMonty(
                min_processes=1,
                max_processes=MAX_WORKERS,
                checkout_timeout=_PATIENCE,
                request_timeout=self._limits.cell_seconds + 2 * self._grace,
                max_checkouts_per_worker=1,
                feed_duration_limit_grace=self._grace,
            )
            await enter_or_undo(pool)
        except (OSError, RuntimeError) as error:
            raise SandboxUnavailable(
                f"Monty's workers cannot be started: {error}; run: {install_command('rlm')}"
            ) from error
        return pool

    async def aclose(self) -> None:
        self._is_closed = True
        repls, self._repls = self._repls, []
        await asyncio.gather(*(repl.aclose() for repl in repls))
        async with self._starting:
            pool, self._pool = self._pool, None
            if pool is None:
                return
            await pool.__aexit__(None, None, None)
            _open.discard(ref(self))
            # A thread of Monty's that still holds on to Python when the program ends aborts it.
            await asyncio.sleep(_LETTING_GO)


_open: set[ref[MontySandbox]] = set()
"""The interpreters that were started and not closed, whether they still live or not."""


@atexit.register
def _close_what_is_open() -> None:
    """Closes interpreters at the end of a program: the threads of Monty must be at rest before Python is torn down."""
    if not _open:
        return

    async def close() -> None:
        async with time_limit(_AT_THE_END):
            await asyncio.gather(*(sandbox.aclose() for each in list(_open) if (sandbox := each()) is not None))

    with suppress(Exception):  # there is nobody left to tell
        asyncio.run(close())
    time.sleep(_LETTING_GO_AT_THE_END)


class _AsyncEnterable(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *exc: Any) -> Any: ...


async def enter_or_undo(started: _AsyncEnterable) -> None:
    """Enter it. A caller that goes away meanwhile waits until it has begun and has ended again: Monty forgets the
    process of a start that is cancelled, and leaves it there."""
    starting = asyncio.ensure_future(started.__aenter__())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await run_to_completion(_close_when_started(starting, started), longest=None)
        raise


async def _close_when_started(starting: asyncio.Future[Any], started: _AsyncEnterable) -> None:
    await asyncio.wait({starting})
    if starting.exception() is None:
        await started.__aexit__(None, None, None)
