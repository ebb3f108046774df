"""One interpreter in a worker of Monty.

A cell that had to be ended leaves no guarantee about what it was in the middle of, so its worker is given up. The
variables are those from before the cell, if they were small enough to be kept aside, or else gone.
"""

from __future__ import annotations

import asyncio
import keyword
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pydantic_monty
from msgspec import Struct
from pydantic_monty import AsyncMontySession, MontyError

from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.core.jsontext import JSONTextError, parse_lightly
from handrail.core.ports import Clock
from handrail.sandbox.kernel.program import MAX_VALUES, NAMES, to_json
from handrail.sandbox.monty.dumps import MontyState, seal_dump, unseal_dump
from handrail.sandbox.monty.execution import MontyExecution, MontyOutcome, MontyOutput
from handrail.sandbox.monty.prologue import LOOK, PUT, SEED, prologue
from handrail.sandbox.monty.sandbox import enter_or_undo
from handrail.sandbox.monty.worker import MontyWorker
from handrail.sandbox.port import JSON, Cell, Host, Kind, ReplLimits, nameable_variables, no_host

KEPT_BYTES = 16 * 2**20
"""Variables that take more than this are not kept aside before each cell: that would take longer than most cells."""

_WITHOUT_VARIABLES = 2**20
_COPIES = 4
"""How many times their size the variables take while they are written out. A worker that has no room for them ends."""

_LOST = "the interpreter and its variables were lost before this cell, and nothing of it has run"

_UNSEEN = "its variables could not be looked at: they take too much time or memory"

_WHOLE = ("ok", "error", "memory")
"""Endings after which an interpreter may go on."""

_MOST_SEEN = 4 * NAMES
"""Names and values that a look may find."""

Checkout = Callable[[], AsyncMontySession]


class _CellFindings(Struct):
    """What was found after a cell."""

    names: dict[str, str]
    values: dict[str, str]


class MontyRepl:
    def __init__(
        self, checkout: Checkout, limits: ReplLimits, *, seed: int, key: bytes, clock: Clock, grace: float
    ) -> None:
        self._checkout = checkout
        self._limits = limits
        self._seed = seed
        self._key = key
        self._clock = clock
        self._grace = grace
        self._session: AsyncMontySession | None = None
        self._worker: MontyWorker | None = None
        self._saved: MontyState | None = None
        self._saving: asyncio.Task[None] | None = None
        """The variables are kept aside for the next cell while nobody waits for it yet."""
        self._is_lost = False
        self._is_busy = False
        self._is_closed = False
        self._begin()

    @property
    def kind(self) -> Kind:
        return "monty"

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def _begin(self) -> None:
        self._feeds = 0
        self._cells: dict[int, int] = {}
        self._number = 0
        self._names: dict[str, str] = {}

    async def run(self, code: str, host: Host = no_host, *, peek: tuple[str, ...] = ()) -> Cell:
        with self._turn():
            session = await self._ready()
            await self._keep_aside(session)
            if self._is_lost:
                self._is_lost = False
                return Cell(ending="lost", error=_LOST, state="gone")
            printed = MontyOutput(self._limits.output_chars)
            drive = MontyExecution(session, self._limits, self._clock, printed, host)
            whole = False
            try:
                fed, seen = await self._cell(drive, code, peek)
                whole = seen is not None
            except BaseException:
                self._is_lost = self._saved is None  # there is no cell to say so: the next one does
                raise
            finally:
                if not whole:
                    await self._give_up()
            if seen is not None:
                self._saved, self._names = None, seen.names
                self._saving = asyncio.ensure_future(self._keep_aside(session))
            return Cell(
                ending=fed.ending,
                stdout=printed.stdout,
                stderr=printed.stderr,
                dropped=printed.dropped,
                error=fed.why or ("" if fed.fault is None else fed.fault.told(self._cells, self._limits)),
                values={} if seen is None else _read(seen.values, peek),
                names=self._names,
                seconds=drive.seconds,
                state="kept" if whole or self._saved is not None else "gone",
            )

    async def _cell(
        self, drive: MontyExecution, code: str, peek: tuple[str, ...]
    ) -> tuple[MontyOutcome, _CellFindings | None]:
        """The code and in the same breath a look at what it left; after an error, the look by itself."""
        self._number += 1
        most = self._limits.message_bytes
        asked = self._next_dice() | {"_handrail_peek": [name for name in peek if name.isidentifier()]}
        if (why := self._refused(code)) is not None:
            fed = MontyOutcome(ending="error", why=why)
        else:
            self._cells[self._feeds] = self._number
            # Two lines on, or a backslash at its end would take the look for the rest of its last line.
            fed = await self._fed(drive, f"{code}\n\n{LOOK}", asked)
            if (seen := _findings_of(fed, most)) is not None:
                return fed, seen
        if fed.ending not in _WHOLE:
            return _blamed(fed), None
        look = MontyExecution(drive.session, self._limits, self._clock, MontyOutput(self._limits.output_chars))
        after = await self._fed(look, LOOK, asked)
        if (seen := _findings_of(after, most)) is None:
            fed = MontyOutcome(ending=after.ending if after.ending not in _WHOLE else "memory", why=self._unseen(fed))
        elif fed.fault is not None and fed.fault.is_of_the_look:
            fed = MontyOutcome(ending="ok")
        return fed, seen

    def _unseen(self, fed: MontyOutcome) -> str:
        """Whatever the code did, it is undone with its variables."""
        if fed.fault is None or fed.fault.is_of_the_look:
            return _UNSEEN
        return f"{fed.fault.told(self._cells, self._limits)}\n{_UNSEEN}"

    def _refused(self, code: str) -> str | None:
        try:
            size = len(code.encode())
        except UnicodeEncodeError:
            return "SyntaxError: the code has text that is not Unicode (half of a surrogate pair)"
        if size > self._limits.message_bytes:
            return f"SyntaxError: the code has {size} bytes; at most {self._limits.message_bytes} can cross"
        return None

    async def _fed(self, drive: MontyExecution, code: str, inputs: dict[str, Any] | None = None) -> MontyOutcome:
        self._feeds += 1
        if self._worker is not None:
            self._worker.allow(self._limits.cell_seconds + self._grace)
        return await drive.feed(code, inputs)

    def _next_dice(self) -> dict[str, Any]:
        return {"_handrail_seed": f"{self._seed}:{self._number + 1}"}

    async def put(self, name: str, value: JSON) -> None:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{name[:100]!r} cannot be the name of a variable; give another one")
        try:
            text = to_json(value)
        except ValueError as error:
            raise UsageError(f"{name!r} cannot be put: {error}") from error
        if len(text) > self._limits.message_bytes:
            raise UsageError(f"{name!r} has {len(text)} bytes; at most {self._limits.message_bytes} can cross")
        with self._turn():
            session = await self._ready()
            await self._keep_aside(session)
            session = await self._ready()  # another one, if that was the end of it
            drive = MontyExecution(session, self._limits, self._clock, MontyOutput(self._limits.output_chars))
            fed = None
            try:
                fed = await self._fed(drive, PUT.format(name=name), {"_handrail_text": text.decode()})
            finally:
                if fed is None or fed.ending != "ok":
                    await self._give_up()
                    self._is_lost = self._saved is None
            if fed.ending != "ok":
                raise UsageError(f"{name!r} could not be put ({fed.ending}); give the interpreter more memory_bytes")
            self._saved = None

    async def dump(self) -> bytes | None:
        """The variables; None if they are too many: writing them out takes several times their memory."""
        with self._turn():
            session = await self._ready()
            if self._saved is None and self._size() <= self._limits.memory_bytes // _COPIES:
                self._saved = await self._state(session)
            return None if self._saved is None else seal_dump(self._saved, self._key)

    async def load(self, state: bytes) -> None:
        with self._turn():
            saved = unseal_dump(state, self._key)
            if saved.version != pydantic_monty.__version__:
                raise UsageError(f"this dump was made by Monty {saved.version}; run the cells again")
            await self._give_up()
            self._saved, self._number, self._is_lost = saved, saved.number, False
            await self._ready()

    async def restart(self) -> None:
        with self._turn():
            await self._give_up()
            self._saved, self._is_lost = None, False
            self._begin()
            await self._ready()

    async def aclose(self) -> None:
        self._is_closed = True
        self._saved = None
        await self._give_up()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._is_closed:
            raise UsageError("this interpreter was closed; take another one from its sandbox")
        if self._is_busy:
            raise UsageError("this interpreter runs a cell; it takes one at a time")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    async def _ready(self) -> AsyncMontySession:
        """A session with the variables that there should be."""
        await self._settled()
        if self._session is not None:
            return self._session
        session = self._checkout()
        try:
            await enter_or_undo(session)
            self._session, self._worker = session, MontyWorker(session.worker_pid, self._limits.memory_bytes)
            drive = MontyExecution(session, self._limits, self._clock, MontyOutput(self._limits.output_chars))
            if self._saved is None:
                self._feeds, self._cells, self._names = 0, {}, {}
                fed = await self._fed(drive, prologue(self._limits.message_bytes), self._next_dice())
            else:
                await session.load_session(self._saved.heap)
                self._feeds, self._cells, self._names = self._saved.feeds, dict(self._saved.cells), self._saved.names
                fed = await self._fed(drive, SEED, self._next_dice())
        except (MontyError, RuntimeError, OSError) as error:
            await self._give_up()
            raise SandboxUnavailable(f"no interpreter could be started in Monty: {error}") from error
        except BaseException:
            await self._give_up()
            raise
        if fed.ending != "ok" or self._is_closed:
            await self._give_up()
            why = "it was closed meanwhile" if self._is_closed else f"{fed.ending}; give it larger limits"
            raise SandboxUnavailable(f"no interpreter could be started in Monty: {why}")
        return session

    async def _keep_aside(self, session: AsyncMontySession) -> None:
        """Keep the variables for when the next cell has to be ended, if there are few."""
        if self._saved is None and self._size() <= min(KEPT_BYTES, self._limits.memory_bytes // _COPIES):
            self._saved = await self._state(session)

    async def _settled(self) -> None:
        """Waits until what was begun after the last cell is done."""
        if self._saving is not None and self._saving is not asyncio.current_task():
            await asyncio.wait({self._saving})
            self._saving = None

    def _size(self) -> float:
        """Bytes of the variables, roughly."""
        memory = None if self._worker is None else self._worker.memory()
        return math.inf if memory is None else max(0, memory - _WITHOUT_VARIABLES)

    async def _state(self, session: AsyncMontySession) -> MontyState | None:
        try:
            heap = await session.dump()
        except (MontyError, RuntimeError):
            await self._give_up()
            self._is_lost = True
            return None
        return MontyState(
            heap=heap,
            version=pydantic_monty.__version__,
            feeds=self._feeds,
            cells=dict(self._cells),
            number=self._number,
            names=self._names,
        )

    async def _give_up(self) -> None:
        """End the worker. What was kept aside stays."""
        session, self._session = self._session, None
        worker, self._worker = self._worker, None
        if self._saved is None:
            self._names = {}
        if worker is not None:
            worker.kill()
        await self._settled()
        if session is not None:
            await session.__aexit__(None, None, None)


def _blamed(fed: MontyOutcome) -> MontyOutcome:
    """The look at what code has left can take its time up as well."""
    if fed.fault is not None and fed.fault.is_of_the_look:
        return MontyOutcome(ending=fed.ending, why=_UNSEEN)
    return fed


def _findings_of(fed: MontyOutcome, most: int) -> _CellFindings | None:
    """What the look found, if it can be believed to be that."""
    if fed.ending != "ok" or not isinstance(text := fed.value.output, str) or len(text) > 8 * most:
        return None
    try:
        seen = msgspec.convert(parse_lightly(text.encode(), max_values=_MOST_SEEN), _CellFindings)
    except (JSONTextError, UnicodeError, msgspec.ValidationError):
        return None
    return _CellFindings(nameable_variables(dict(list(seen.names.items())[:NAMES])), seen.values)


def _read(values: dict[str, str], peek: tuple[str, ...]) -> dict[str, JSON]:
    read = {}
    for name, text in values.items():
        if name not in peek:
            continue
        try:
            read[name] = parse_lightly(text.encode(), max_values=MAX_VALUES // len(peek))
        except JSONTextError:
            read[name] = text[:1_000]
    return read
