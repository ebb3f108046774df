"""A REPL in a CPython of its own, which is begun again when it had to be ended."""

from __future__ import annotations

import keyword
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from handrail.core.errors import UsageError
from handrail.sandbox.kernel.interpreter import Interpreter
from handrail.sandbox.kernel.program import to_json
from handrail.sandbox.port import JSON, Cell, Host, Kind, ReplLimits, no_host


class KernelRepl:
    """It has no dumps: whoever wants its variables back runs the cells again."""

    def __init__(
        self,
        kind: Kind,
        limits: ReplLimits,
        interpreter: Interpreter,
        take: Callable[[], Awaitable[Interpreter]],
        let_go: Callable[[Interpreter], None],
    ) -> None:
        self._kind = kind
        self._limits = limits
        self._interpreter = interpreter
        self._take = take
        self._let_go = let_go
        self._is_busy = False
        self._is_closed = False

    @property
    def kind(self) -> Kind:
        return self._kind

    async def run(self, code: str, host: Host = no_host, *, peek: tuple[str, ...] = ()) -> Cell:
        with self._alone():
            try:
                text = to_json(code)
                to_json(peek)
            except ValueError as error:
                return Cell(ending="error", error=f"The code was not run: {error}.")
            if len(text) > self._limits.message_bytes:
                much = f"it is {len(text)} bytes long, and at most {self._limits.message_bytes} can cross"
                return Cell(ending="error", error=f"The code was not run: {much}.")
            return await (await self._there()).run(text, host, peek)

    async def put(self, name: str, value: JSON) -> None:
        with self._alone():
            if not name.isidentifier() or keyword.iskeyword(name):
                raise UsageError(f"{name!r} is not a name that a variable can have")
            try:
                text = to_json(value)
            except ValueError as error:
                raise UsageError(f"{name!r} cannot be put there: {error}") from error
            if len(text) > self._limits.message_bytes:
                much = f"it is {len(text)} bytes long, and at most {self._limits.message_bytes} can cross"
                raise UsageError(f"{name!r} cannot be put there: {much}")
            await (await self._there()).put(name, text)

    async def dump(self) -> bytes | None:
        return None

    async def load(self, state: bytes) -> None:
        raise UsageError(f"a REPL of kind {self._kind!r} has no dumps; run its cells again instead")

    async def restart(self) -> None:
        with self._alone():
            self._interpreter.kill()
            await self._there()

    async def aclose(self) -> None:
        self._is_closed = True
        await self._interpreter.aclose()
        self._let_go(self._interpreter)  # not before: if this is cancelled, its sandbox sees to the end of it

    async def _there(self) -> Interpreter:
        """The interpreter, or another one if it is gone."""
        if self._interpreter.is_gone:
            await self._interpreter.aclose()
            self._let_go(self._interpreter)
            self._interpreter = await self._take()
            if self._is_closed:  # meanwhile
                await self.aclose()
                raise UsageError("this REPL was closed")
        return self._interpreter

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._is_closed:
            raise UsageError("this REPL was closed; take another one from its sandbox")
        if self._is_busy:
            raise UsageError("this REPL runs a cell; one at a time, or take another REPL")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
