"""Where interpreters come from: CPython behind a jail, or in a plain process. Some wait, started, to be taken."""

from __future__ import annotations

import asyncio
import keyword
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.sandbox.jail import Jail
from handrail.sandbox.kernel.child_process import start_interpreter
from handrail.sandbox.kernel.interpreter import Interpreter
from handrail.sandbox.kernel.program import to_json
from handrail.sandbox.port import JSON, Cell, Host, Kind, ReplLimits, no_host


@dataclass(eq=False)
class KernelRepl:
    """It has no dumps: whoever wants its variables back runs the cells again."""

    kind: Kind
    limits: ReplLimits
    interpreter: Interpreter
    take: Callable[[], Awaitable[Interpreter]]
    let_go: Callable[[Interpreter], None]
    _is_busy: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)

    async def run(self, code: str, host: Host = no_host, *, peek: tuple[str, ...] = ()) -> Cell:
        with self._exclusive():
            try:
                text = to_json(code)
                to_json(peek)
            except ValueError as error:
                return Cell(ending="error", error=f"The code was not run: {error}.")
            if len(text) > self.limits.message_bytes:
                much = f"it is {len(text)} bytes long, and at most {self.limits.message_bytes} can cross"
                return Cell(ending="error", error=f"The code was not run: {much}.")
            return await (await self._there()).run(text, host, peek)

    async def put(self, name: str, value: JSON) -> None:
        with self._exclusive():
            if not name.isidentifier() or keyword.iskeyword(name):
                raise UsageError(f"{name!r} is not a name that a variable can have")
            try:
                text = to_json(value)
            except ValueError as error:
                raise UsageError(f"{name!r} cannot be put there: {error}") from error
            if len(text) > self.limits.message_bytes:
                much = f"it is {len(text)} bytes long, and at most {self.limits.message_bytes} can cross"
                raise UsageError(f"{name!r} cannot be put there: {much}")
            await (await self._there()).put(name, text)

    async def dump(self) -> bytes | None:
        return None

    async def load(self, state: bytes) -> None:
        raise UsageError(f"a REPL of kind {self.kind!r} has no dumps; run its cells again instead")

    async def restart(self) -> None:
        with self._exclusive():
            self.interpreter.kill()
            await self._there()

    async def aclose(self) -> None:
        self._is_closed = True
        await self.interpreter.aclose()
        self.let_go(self.interpreter)  # not before: if this is cancelled, its sandbox sees to the end of it

    async def _there(self) -> Interpreter:
        """The interpreter, or another one if it is gone."""
        if self.interpreter.is_gone:
            await self.interpreter.aclose()
            self.let_go(self.interpreter)
            self.interpreter = await self.take()
            if self._is_closed:  # meanwhile
                await self.aclose()
                raise UsageError("this REPL was closed")
        return self.interpreter

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if self._is_closed:
            raise UsageError("this REPL was closed; take another one from its sandbox")
        if self._is_busy:
            raise UsageError("this REPL runs a cell; one at a time, or take another REPL")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


class KernelSandbox:
    """Of kind `os` with a jail, else `process`. Nothing is started before it is entered or asked for a REPL."""

    def __init__(
        self, limits: ReplLimits = ReplLimits(), *, jail: Jail | None = None, warm: int = 1, grace: float = 2.0
    ) -> None:
        self._limits = limits
        self._jail = jail
        self._warm = warm
        self._grace = grace
        """Seconds that a cell has to end in after it was interrupted."""
        self._spare: deque[Interpreter] = deque()
        self._taken: set[Interpreter] = set()
        self._starting = asyncio.Lock()
        self._is_closed = False

    @property
    def kind(self) -> Kind:
        return "process" if self._jail is None else "os"

    async def repl(self, *, seed: int = 0) -> KernelRepl:
        async def take() -> Interpreter:
            return await self._take(seed)

        return KernelRepl(self.kind, self._limits, await take(), take, self._taken.discard)

    async def aclose(self) -> None:
        self._is_closed = True
        ending = [*self._spare, *self._taken]
        self._spare.clear()
        self._taken.clear()
        for interpreter in ending:
            interpreter.kill()
        await asyncio.gather(*(interpreter.aclose() for interpreter in ending))

    async def __aenter__(self) -> Self:
        self._fill()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _take(self, seed: int) -> Interpreter:
        while self._spare:
            try:
                return await self._begun(self._spare.popleft(), seed)
            except SandboxUnavailable:
                continue  # it ended while it waited; one that is started now says why, if that goes on
        async with self._starting:
            # One in each round of the loop, which stands still meanwhile for some milliseconds.
            await asyncio.sleep(0)
            if self._is_closed:
                raise UsageError("this sandbox was closed")
            interpreter = self._start()
        return await self._begun(interpreter, seed)

    async def _begun(self, interpreter: Interpreter, seed: int) -> Interpreter:
        interpreter.seed = seed
        self._taken.add(interpreter)
        try:
            await interpreter.begin()
        except SandboxUnavailable:
            self._taken.discard(interpreter)
            raise
        except BaseException:
            interpreter.end().add_done_callback(lambda _: self._taken.discard(interpreter))
            raise
        self._fill()
        return interpreter

    def _start(self) -> Interpreter:
        return Interpreter(start_interpreter(self._limits, self._jail), self._limits, self._grace)

    def _fill(self) -> None:
        """Starts spare interpreters. An error is left to whoever takes one: it is no reason to refuse those there
        are."""
        with suppress(SandboxUnavailable):
            while len(self._spare) < self._warm and not self._is_closed:
                self._spare.append(self._start())
