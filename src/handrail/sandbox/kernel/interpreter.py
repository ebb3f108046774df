"""The host's side of one interpreter: its cells, one after the other, each within its limits.

A cell is ended in one way, whatever the reason: it is interrupted, and if it has not ended when the grace is over
its process is killed and its socket shut. Whoever waits for the cell learns it from that.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.core.framing import FrameError
from handrail.core.jsontext import without_surrogates
from handrail.core.timeouts import time_limit
from handrail.sandbox.kernel import messages
from handrail.sandbox.kernel.child_process import ChildInterpreter
from handrail.sandbox.kernel.messages import (
    CellDone,
    CellHostCall,
    InterpreterChannel,
    InterpreterHungUp,
    InterpreterReady,
    Said,
    VariableBound,
)
from handrail.sandbox.kernel.output import InterpreterOutput
from handrail.sandbox.kernel.program import ERROR_CHARS, NAMES, OUT_OF_MEMORY, to_json
from handrail.sandbox.port import Cell, Ending, Host, HostError, ReplLimits, nameable_variables, no_host

_SECONDS_TO_START = 30.0
_SECONDS_TO_BIND = 60.0
_GONE = "its interpreter had to be ended too, and every variable is gone"


class Interpreter:
    """One process with its variables. It runs one cell at a time, and none any more once it is gone."""

    def __init__(self, child: ChildInterpreter, limits: ReplLimits, grace: float) -> None:
        self._child = child
        self._limits = limits
        self._grace = grace
        self._channel = InterpreterChannel(child.sock, limits.message_bytes)
        self._output = InterpreterOutput(child.output, child.errors, limits.output_chars)
        self._printed = ("", "", 0)
        self._talking = asyncio.Lock()
        """Held by whoever waits for a frame, so that nothing is closed under them."""
        self._number = 0
        self.seed = 0
        self._ending: asyncio.Task[int] | None = None
        self.is_gone = False

    async def begin(self) -> None:
        """Wait until it has started.

        Raises:
            SandboxUnavailable: It did not start, with what it said about that.
        """
        try:
            async with time_limit(_SECONDS_TO_START), self._talking:
                if await self._channel.receive() != InterpreterReady():
                    raise FrameError("it began with something else")
        except (InterpreterHungUp, FrameError, TimeoutError) as error:
            code = await self.aclose()
            said = " ".join(self._printed[:2]).strip()[-1_000:]
            raise SandboxUnavailable(f"the interpreter did not start ({_how(code)}): {said or error}") from error

    async def put(self, name: str, value: bytes) -> None:
        """Bind a variable.

        Raises:
            UsageError: It does not take this value.
            SandboxUnavailable: It ended.
        """
        try:
            async with time_limit(_SECONDS_TO_BIND), self._talking:
                await self._channel.send(messages.put(self._number, name, value))
                said = await self._channel.receive()
        except (InterpreterHungUp, FrameError, TimeoutError) as error:
            code = await self.aclose()
            raise SandboxUnavailable(f"the interpreter ended while {name!r} was put there ({_how(code)})") from error
        except BaseException:
            self.kill()
            raise
        if not isinstance(said, VariableBound):
            self.kill()
            raise SandboxUnavailable(f"the interpreter was ended: it answered out of turn as {name!r} was put there")
        if said.error:
            raise UsageError(f"{name!r} cannot be put there: {without_surrogates(said.error)[:ERROR_CHARS]}")

    async def run(self, code: bytes, host: Host, peek: tuple[str, ...]) -> Cell:
        """`code` is its text as JSON."""
        self._number += 1
        seconds = self._limits.cell_seconds
        turn = RunningCell(self._number, seconds=seconds, grace=self._grace, interrupt=self._interrupt, kill=self.kill)
        self._output.begin(lambda: turn.end("output"))
        try:
            done = await self._talk(turn, messages.cell(self._number, code, peek, self.seed), host)
        except (InterpreterHungUp, FrameError) as error:
            return await self._lost_cell(turn, error)
        except BaseException:
            await self._wind_down(turn)
            raise
        finally:
            turn.close()
        return self._finished_cell(turn, done, peek)

    def kill(self) -> None:
        self.is_gone = True
        self._child.kill()

    def end(self) -> asyncio.Task[int]:
        """Kill it and see that nothing is left: its exit code; of a signal, the number negated."""
        self.kill()
        if self._ending is None:
            self._ending = asyncio.create_task(self._reap())
        return self._ending

    async def aclose(self) -> int:
        return await asyncio.shield(self.end())

    async def _reap(self) -> int:
        code = await self._child.process.wait()
        async with self._talking:
            self._printed = self._output.finish()
            self._child.close()
        return code

    def _interrupt(self, number: int) -> None:
        with suppress(OSError):  # it has ended, or does not listen: then it is killed
            self._child.control.send(number.to_bytes(4, "big"))

    async def _talk(self, turn: RunningCell, first: bytes, host: Host) -> CellDone:
        """Run a cell and answer what it asks of the host, until it is done.

        Raises:
            InterpreterHungUp: It has ended.
            FrameError: It said something that makes no sense now.
        """
        said = await self._exchange(turn, first)
        while isinstance(said, CellHostCall):
            turn.take(said)
            reply = await self._reply(turn, said, host)
            said = await self._exchange(turn, reply)
        if not isinstance(said, CellDone) or said.cell != turn.number:
            raise FrameError("it spoke out of turn")
        return said

    async def _exchange(self, turn: RunningCell, told: bytes) -> Said:
        """Say something and wait for what it says next, while the clock runs."""
        async with self._talking:
            turn.go()
            self._output.listen()
            try:
                await self._send(told)
                turn.unanswered = None
                return await self._channel.receive()
            finally:
                self._output.rest()
                turn.stop()

    async def _send(self, told: bytes) -> None:
        try:
            await self._channel.send(told)
        except BaseException:
            self.kill()  # it may have got half of a frame
            raise

    async def _reply(self, turn: RunningCell, call: CellHostCall, host: Host) -> bytes:
        number = (turn.number, turn.calls)
        if turn.calls > self._limits.host_calls:
            turn.end("calls")
        if turn.cause is not None:
            if turn.is_refused:
                self.kill()
            turn.is_refused = True
            return messages.failure(*number, "KeyboardInterrupt", "the cell is being ended")
        try:
            value = await host(call.name, call.value)
        except HostError as error:
            return messages.failure(*number, error.kind, str(error)[: self._limits.message_bytes // 8])
        try:
            answer = to_json(value)
        except ValueError as error:
            return messages.failure(*number, "ValueError", f"the answer cannot cross: {error}")
        if len(answer) > self._limits.message_bytes:
            much = f"{len(answer)} bytes cannot cross, at most {self._limits.message_bytes} can"
            return messages.failure(*number, "ValueError", f"the answer is too large: {much}")
        return messages.answer(*number, answer)

    async def _wind_down(self, turn: RunningCell) -> None:
        """Ends a cell that nobody waits for any more, and keeps the variables if it can be interrupted."""
        turn.end("cancelled")
        told = b""
        if turn.unanswered is not None:
            told = messages.failure(turn.number, turn.calls, "KeyboardInterrupt", "the cell is being ended")
        try:
            await self._talk(turn, told, no_host)
        except (InterpreterHungUp, FrameError):
            self.kill()
        except BaseException:
            self.kill()
            raise

    def _finished_cell(self, turn: RunningCell, done: CellDone, peek: tuple[str, ...]) -> Cell:
        stdout, stderr, dropped = self._output.finish()
        ending: Ending = "memory" if done.memory else "error" if done.error else "ok"
        error = done.error[: 2 * ERROR_CHARS]
        if turn.cause is not None and turn.cause != "cancelled":
            ending, error = turn.cause, f"{error}\nThe cell was ended: {self._why(turn.cause)}.".lstrip()
        return Cell(
            ending=ending,
            stdout=stdout,
            stderr=stderr,
            dropped=dropped,
            error=error,
            values={name: value for name, value in done.values.items() if name in peek},
            names=nameable_variables({name[:200]: kind[:200] for name, kind in list(done.names.items())[:NAMES]}),
            seconds=turn.seconds,
        )

    async def _lost_cell(self, turn: RunningCell, error: Exception) -> Cell:
        code = await self.aclose()
        stdout, stderr, dropped = self._printed
        ending: Ending = "lost" if turn.cause is None or turn.cause == "cancelled" else turn.cause
        if turn.cause is None and code == OUT_OF_MEMORY:
            ending = "memory"
        match error:
            case _ if ending == "memory":
                why = f"The cell needed more memory than there is. So {_GONE}."
            case _ if turn.cause is not None:
                why = f"The cell was ended: {self._why(turn.cause)}. It could not be interrupted, so {_GONE}."
            case FrameError():
                why = f"The cell was ended: of its interpreter, {error}. So {_GONE}."
            case _:
                why = f"The interpreter ended under the cell ({_how(code)}), and every variable is gone."
        return Cell(
            ending=ending,
            stdout=stdout,
            stderr=stderr,
            dropped=dropped,
            error=why,
            seconds=turn.seconds,
            state="gone",
        )

    def _why(self, cause: Cause) -> str:
        match cause:
            case "timeout":
                return f"it ran for more than {self._limits.cell_seconds:g} s"
            case "output":
                return f"it printed more than {10 * self._limits.output_chars} characters"
            case "calls":
                return f"it asked the host more than {self._limits.host_calls} times"
            case "cancelled":
                return "nobody waited for it any more"


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


Cause = Literal["timeout", "output", "calls", "cancelled"]


class RunningCell:
    """The clock runs while the cell does, and stands still while the host is at work for it.

    The first reason to end the cell counts. It is interrupted; if it has not ended within the grace, it is killed.
    """

    def __init__(
        self, number: int, *, seconds: float, grace: float, interrupt: Callable[[int], None], kill: Callable[[], None]
    ) -> None:
        self.number = number
        self.calls = 0
        self.unanswered: CellHostCall | None = None
        self.cause: Cause | None = None
        self.is_refused = False
        """It asked the host again although it is being ended."""
        self.seconds = 0.0
        self._limit = seconds
        self._grace = grace
        self._interrupt = interrupt
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._killer: asyncio.TimerHandle | None = None

    def go(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_later(max(self._limit - self.seconds, 0.0), self.end, "timeout")

    def stop(self) -> None:
        self.seconds += self._loop.time() - self._since
        if self._timer is not None:
            self._timer.cancel()

    def end(self, cause: Cause) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        self._interrupt(self.number)
        self._killer = self._loop.call_later(self._grace, self._kill)

    def close(self) -> None:
        if self._killer is not None:
            self._killer.cancel()

    def take(self, call: CellHostCall) -> None:
        """Take in what the cell asks of the host.

        Raises:
            FrameError: It is not the next call of this cell.
        """
        if (call.cell, call.call) != (self.number, self.calls + 1):
            raise FrameError("it asked the host out of turn")
        self.calls += 1
        self.unanswered = call
