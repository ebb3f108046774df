"""One piece of code in one session of Monty, from suspension to suspension until it ends."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncMontySession,
    AsyncNameLookupSnapshot,
    AsyncSnapshot,
    ExcType,
    ExternalExceptionData,
    ExternalReturnValue,
    MontyComplete,
    MontyError,
)

from handrail.core.jsontext import JSONTextError, parse_lightly, without_surrogates
from handrail.core.ports import Clock
from handrail.sandbox.kernel.program import MAX_VALUES, to_json
from handrail.sandbox.monty.failures import MontyFailure
from handrail.sandbox.monty.prologue import ASK
from handrail.sandbox.port import Ending, Host, HostError, ReplLimits, no_host

_SLEEPS = ("time.sleep", "asyncio.sleep")
_KINDS: dict[str, ExcType] = {name: name for name in get_args(ExcType)}

Answer = ExternalReturnValue | ExternalExceptionData


@dataclass(frozen=True, slots=True, kw_only=True)
class MontyOutcome:
    """How a piece of code ended."""

    ending: Ending
    why: str = ""
    """Why a limit of ours ended the code."""
    fault: MontyFailure | None = None
    """What went wrong in Monty."""
    value: Any = None


class _MontyLimitReached(Exception):
    """A limit that is ours to hold was reached."""

    def __init__(self, ending: Ending, why: str) -> None:
        super().__init__(why)
        self.ending = ending


class MontyExecution:
    """Feeds code to a session, and answers what it asks."""

    def __init__(
        self, session: AsyncMontySession, limits: ReplLimits, clock: Clock, printed: MontyOutput, host: Host = no_host
    ) -> None:
        self.session = session
        self._limits = limits
        self._clock = clock
        self._printed = printed
        self._host = host
        self._calls = 0
        self.seconds = 0.0

    async def feed(self, code: str, inputs: dict[str, Any] | None = None) -> MontyOutcome:
        """Whatever the host raises, but for a `HostError`, is raised here; the session is then left as it is."""
        try:
            start = self.session.feed_start(code, inputs=inputs, print_callback=self._printed.take)
            snapshot = await self._timed(start)
            while not isinstance(snapshot, MontyComplete):
                snapshot = await self._resumed(snapshot)
            return MontyOutcome(ending="ok", value=snapshot)
        except _MontyLimitReached as over:
            return MontyOutcome(ending=over.ending, why=str(over))
        except (MontyError, MontyWorkerBroken) as error:
            fault = MontyFailure.of(error)
            return MontyOutcome(ending=fault.ending, fault=fault)

    async def _timed(self, turn: Awaitable[AsyncSnapshot]) -> AsyncSnapshot:
        began = self._clock.monotonic()
        waiting = asyncio.ensure_future(turn)
        self._printed.on_flood = partial(asyncio.get_running_loop().call_soon_threadsafe, waiting.cancel)
        try:
            return await self._unless_flooded(waiting)
        except (MontyError, _MontyLimitReached):
            raise
        except Exception as error:
            raise MontyWorkerBroken(str(error)) from error
        finally:
            # Monty holds on to the output where Python cannot see it, and the output must not hold on to us.
            self._printed.on_flood = ignore_output
            self.seconds += self._clock.monotonic() - began

    async def _unless_flooded(self, turn: asyncio.Future[AsyncSnapshot]) -> AsyncSnapshot:
        enough = f"it printed more than {FLOOD * self._limits.output_chars} characters"
        try:
            snapshot = await turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _MontyLimitReached("output", enough) from None
        if self._printed.is_flooded:
            raise _MontyLimitReached("output", enough)
        return snapshot

    async def _resumed(self, snapshot: AsyncSnapshot) -> AsyncSnapshot:
        self._calls += 1
        if self._calls > self._limits.host_calls:
            raise _MontyLimitReached(
                "calls", f"the host was called more than {self._limits.host_calls} times in one cell"
            )
        match snapshot:
            case AsyncFunctionSnapshot(is_os_function=True):
                if snapshot.function_name not in _SLEEPS:
                    return await self._timed(snapshot.resume_not_handled())
                await self._sleep(float(snapshot.args[0]))
                return await self._timed(snapshot.resume({"return_value": None}))
            case AsyncFunctionSnapshot():
                return await self._timed(snapshot.resume(await self._answer(snapshot)))
            case AsyncNameLookupSnapshot():
                return await self._timed(snapshot.resume())
            case AsyncFutureSnapshot() | MontyComplete():
                raise MontyWorkerBroken("it waits for what nobody has promised")

    async def _sleep(self, seconds: float) -> None:
        """Sleeping is time of its own."""
        left = max(0.0, self._limits.cell_seconds - self.seconds)
        await self._clock.sleep(min(seconds, left))
        self.seconds += min(seconds, left)
        if seconds >= left:
            raise _MontyLimitReached("timeout", f"it ran and slept for more than {self._limits.cell_seconds:g} s")

    async def _answer(self, snapshot: AsyncFunctionSnapshot) -> Answer:
        if snapshot.function_name != ASK:
            return _raised("NameError", f"name {str(snapshot.function_name)[:200]!r} is not defined")
        match snapshot.args:
            case (str(name), str(text)):
                return await self._answer_host_call(name, text)
        return _raised("TypeError", "the host is asked by _host(name, value)")

    async def _answer_host_call(self, name: str, text: str) -> Answer:
        most = self._limits.message_bytes
        if len(name) + len(text) > most or len(name.encode()) + len(said := text.encode()) > most:
            return _raised(
                "ValueError", f"{len(text)} characters cannot cross: at most {most} bytes can, with the name"
            )
        try:
            value = parse_lightly(said, max_values=MAX_VALUES)
        except JSONTextError as error:
            return _raised("ValueError", f"it is not JSON that can cross: {error}")
        try:
            answer = await self._host(name, value)
        except HostError as error:
            return _raised(error.kind, str(error))
        try:
            reply = to_json(answer)
        except ValueError as error:
            return _raised("ValueError", f"what {name[:200]!r} answered cannot cross: {error}")
        if len(reply) > most:
            return _raised("ValueError", f"what {name[:200]!r} answered cannot cross: it has more than {most} bytes")
        return {"return_value": reply.decode()}


class MontyWorkerBroken(Exception):
    """The worker is not what it should be."""


def _raised(kind: str, message: str) -> ExternalExceptionData:
    """The builtin exception of that name, or the nearest base of it that Monty has."""
    found = getattr(builtins, kind, None)
    said = without_surrogates(message)
    if isinstance(found, type) and issubclass(found, Exception):
        nearest = next(each for above in found.__mro__ if (each := _KINDS.get(above.__name__)))
        return {"exc_type": nearest, "message": said}
    return {"exc_type": "RuntimeError", "message": f"{kind}: {said}"}


FLOOD = 10
"""A cell is ended once it has printed so many times its limit."""


class MontyOutput:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.on_flood: Callable[[], object] = ignore_output
        self._pieces: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._kept = 0
        self._seen = 0

    def take(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        was_flooded = self.is_flooded
        self._seen += len(text)
        if piece := text[: self._limit - self._kept]:
            self._kept += len(piece)
            self._pieces[stream].append(piece)
        if self.is_flooded and not was_flooded:
            self.on_flood()

    @property
    def is_flooded(self) -> bool:
        return self._seen > FLOOD * self._limit

    @property
    def stdout(self) -> str:
        return "".join(self._pieces["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._pieces["stderr"])

    @property
    def dropped(self) -> int:
        return self._seen - self._kept


def ignore_output() -> None:
    """Reports to nobody."""
