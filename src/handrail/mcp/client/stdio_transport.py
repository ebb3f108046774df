"""A server that is a program: started without a shell, spoken to in lines, ended with all its children.

This stands where the SDK's own stdio transport would. That one takes time that
grows with the square of a message, keeps what is too long, and drops what it
cannot read so that the caller waits for ever.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest
from pydantic_core import PydanticSerializationError

from handrail.core.child_process import ProgramProtocol, end_program, occurs_within
from handrail.core.tasks import run_to_completion
from handrail.mcp.client.failures import ATTEMPT, McpConnectionLost, clean_server_text
from handrail.mcp.client.head_start import StartedServer, start_server
from handrail.mcp.client.inbox import InboxQueue, McpInbox
from handrail.mcp.client.line_cutter import EndlessLine, McpLineCutter
from handrail.mcp.client.wire import UnreadableLine, read_message, refusal_of
from handrail.mcp.sdk_internals import TransportStreams
from handrail.mcp.values import McpBounds, StdioEndpoint

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds for a program to end when its input has, and again when it was told to."""
_FULL = 256
"""Messages that wait to be read until no more are taken from the program."""
_FLUSH = 0.5
"""Seconds for the program to take what was already written to it."""


class StdioTransport:
    """A `Transport` of the SDK's over the standard input and output of a program."""

    def __init__(
        self,
        endpoint: StdioEndpoint,
        bounds: McpBounds,
        inbox: McpInbox,
        *,
        on_end: Callable[[], None] = lambda: None,
        environ: Mapping[str, str] = os.environ,
        grace: float = GRACE,
        started: StartedServer | None = None,
    ) -> None:
        """`on_end` is called when nothing more will come. `started` is the program, if it runs already."""
        self._started = started
        self._endpoint = endpoint
        self._environ = environ
        self._grace = grace
        self._program = _ServerProgram(bounds, inbox, on_end)
        self._transport: asyncio.SubprocessTransport | None = None

    @property
    def errors(self) -> str:
        """The last of what the program said on its standard error, and what it said where it should not have."""
        return self._program.said()

    @property
    def ending(self) -> str:
        """How the program ended, or that it did not."""
        code = None if self._transport is None else self._transport.get_returncode()
        if code is None:
            return "it closed its output" if self._program.silent else "it runs"
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

    @property
    def spoken(self) -> int:
        """How often the program has said something."""
        return self._program.spoken

    async def __aenter__(self) -> TransportStreams:
        if self._started is not None:
            self._transport = self._started.hand_over(self._program)
            return self._program.incoming, StdioWriteStream(self._program)
        try:
            self._transport = await start_server(self._endpoint, self._program, self._environ)
        except (OSError, ValueError) as error:
            raise McpConnectionLost(f"{self._endpoint.command!r} could not be started: {error}") from error
        return self._program.incoming, StdioWriteStream(self._program)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_to_completion(self._end(), longest=None)

    async def _end(self) -> None:
        """Close its input, wait, SIGTERM, wait, SIGKILL; leave no process of the group behind."""
        assert self._transport is not None
        self._program.deafen()
        await self._program.close_input(_FLUSH)
        await end_program(self._transport, self._program, patience=self._grace, grace=self._grace, flush=_FLUSH)


class _ServerProgram(ProgramProtocol):
    """What the program says, and whether it can be spoken to."""

    def __init__(self, bounds: McpBounds, inbox: McpInbox, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._bounds = bounds
        self._on_end = on_end
        self._lines = McpLineCutter(bounds.message)
        self._errors = bytearray()
        self._noise = ""
        self._transport: asyncio.SubprocessTransport | None = None
        self._paused = False
        self._deaf = False
        self.incoming = InboxQueue(inbox, self._on_room)
        self.spoken = 0
        self.silent = False
        self.writable = asyncio.Event()
        self.writable.set()

    def said(self) -> str:
        noise = f"(on its standard output, where only messages belong) {self._noise}" if self._noise else ""
        return "\n".join(filter(None, (self._errors[-self._bounds.stderr :].decode("utf-8", "replace").strip(), noise)))

    def deafen(self) -> None:
        """Read on, so that it is not stuck in a write, and keep nothing."""
        self._deaf = True
        self._resume()

    # ── what asyncio tells ───────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._errors += data[-self._bounds.stderr :]
            if len(self._errors) > 2 * self._bounds.stderr:
                del self._errors[: -self._bounds.stderr]
        elif not self._deaf:
            self.spoken += 1
            self._hear(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        if fd == 1:
            self.silent = True
            self._finish()
        elif fd == 0:
            self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    # ── in ───────────────────────────────────────────────────────────────────────────

    def _hear(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._hear_line(line)
        except (EndlessLine, UnreadableLine) as error:
            # Somebody may be waiting for what cannot be told apart any more: end it, and everybody is answered.
            self._note(str(error) or f"a line of more than {16 * self._bounds.message} bytes without an end")
            self._deaf = True
            self._finish()
        if len(self.incoming) >= _FULL and not self._paused:
            self._paused = True
            self._stdout().pause_reading()

    def _hear_line(self, line: Any) -> None:
        message: JSONRPCMessage | None
        if isinstance(line, bytes):
            try:
                message = read_message(line)
            except UnreadableLine:
                self._note(line[:200].decode("utf-8", "replace"))
                return
        else:
            message = refusal_of(line, self._bounds.message)
        if message is not None:
            self.incoming.put(message)

    def _finish(self) -> None:
        self.incoming.end()
        self._on_end()

    def _note(self, noise: str) -> None:
        self._noise = clean_server_text(noise)
        logger.debug("an MCP server wrote what is not a message: %s", self._noise)

    def _on_room(self) -> None:
        if self._paused and len(self.incoming) < _FULL // 2:
            self._resume()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            if 1 in self.open_pipes:
                self._stdout().resume_reading()

    def _stdout(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(1)
        assert isinstance(pipe, asyncio.ReadTransport)
        return pipe

    # ── out ──────────────────────────────────────────────────────────────────────────

    @property
    def _stdin(self) -> asyncio.WriteTransport:
        assert self._transport is not None
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        return pipe

    @property
    def listens(self) -> bool:
        return 0 in self.open_pipes and not self._stdin.is_closing()

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def close_input(self, patience: float) -> None:
        if self.listens:
            await occurs_within(self.writable, patience)
            self._stdin.close()


class StdioWriteStream:
    """The `WriteStream` of the SDK's to a program."""

    def __init__(self, program: _ServerProgram) -> None:
        self._program = program
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        data = encode_message(item.message)
        # Only a request waits for room. A notice that a request was given up must not keep its caller waiting.
        if isinstance(item.message, JSONRPCRequest) and not self._program.writable.is_set():
            await self._program.writable.wait()
        if self._closed:
            raise anyio.ClosedResourceError
        if not self._program.listens:
            raise anyio.BrokenResourceError
        if (attempt := ATTEMPT.get()) is not None:
            attempt.sent = True
        self._program.write(data)

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


def encode_message(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):  # half of a surrogate pair
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"
