"""A socket at which code asks models: what a REPL of `rlms`, or ours, talks to from another process.

Each frame is an `LMRequest` and has one `LMResponse`. `rlms` makes a connection for each; here several may follow one
another on the same. A client that hangs up has its query cancelled; one that shuts down only its sending side counts
as hung up.

A port of 127.0.0.1 is open to every user of the machine, and `rlms` knows no password, so by default whoever can log
in here can ask these models. `secret` closes it to everyone who does not send it as `metadata.secret`; a Unix socket
(`path`) is closed to other users by the file system. Anything but loopback needs a secret, and goes unencrypted.

With tools, one reply of the model is asked for, and its calls are the client's to run. They are tagged: `tool_calls`
of the completion holds them, and `metadata.tagged` of the response says that it would. For clients that know no tag
they also stand in the text, as `{"tool_calls": […], "content": …}`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket
from collections.abc import Coroutine
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from handrail.core.errors import HandrailError, RateLimited, UsageError, describe_exception
from handrail.core.framing import FrameError
from handrail.core.redact import redact_text
from handrail.http.listener import listening_socket
from handrail.http.request_guard import RequestMemory, is_loopback
from handrail.rlm.query.batch import run_all_bounded
from handrail.rlm.query.queries import Queries
from handrail.rlm.socket.connection import HandlerBusy, HandlerConnection, HandlerLimits
from handrail.rlm.socket.wire import CHUNK, Address, request_of
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion
from handrail.sync import Portal

logger = logging.getLogger(__name__)


class LMHandler:
    """Serves `Queries` on a socket. Async, or in a thread of its own:

    async with LMHandler(queries) as handler: ...
    with LMHandler(queries) as handler: ...
    """

    def __init__(
        self,
        queries: Queries,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        path: Path | str | None = None,
        secret: str | None = None,
        limits: HandlerLimits = HandlerLimits(),
    ) -> None:
        """A host that can be reached from elsewhere needs a secret, or is a `UsageError`."""
        if path is None and secret is None and not is_loopback(host):
            raise UsageError(f"{host!r} can be reached from other machines; give a secret=, or listen at 127.0.0.1")
        self._queries = queries
        self._host, self._port = host, port
        self._path = None if path is None else Path(path)
        self._secret = secret
        self._limits = limits
        self._room = RequestMemory(limits.held_bytes)
        self._server: asyncio.Server | None = None
        self._address: Address | None = None
        self._open = ExitStack()
        self._serving: dict[HandlerConnection, asyncio.Task[None]] = {}
        self._dismissed: dict[HandlerConnection, asyncio.Task[None]] = {}
        """For whom there was no place; they are being told so."""
        self._portal: Portal | None = None

    @property
    def address(self) -> Address:
        """The address at which it listens.

        Raises:
            UsageError: It does not yet, or no more.
        """
        if self._address is None:
            raise UsageError("the handler is not listening; start it first")
        return self._address

    async def start(self) -> Address:
        """Listen. The address is a host and a port, or the path of the Unix socket.

        Raises:
            UsageError: It cannot listen there.
        """
        if self._address is not None:
            return self._address
        try:
            self._address = await self._listen()
        except BaseException:
            self._open.close()
            raise
        return self._address

    async def _listen(self) -> Address:
        if self._path is not None:
            listener = self._open.enter_context(_bound_path(self._path))
            self._open.callback(_remove, self._path, self._path.lstat())
            self._server = await asyncio.start_unix_server(self._arrived, sock=listener, limit=CHUNK)
            return self._path
        listener = self._open.enter_context(listening_socket(self._host, self._port))
        self._server = await asyncio.start_server(self._arrived, sock=listener, limit=CHUNK)
        return self._host, listener.getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening; what is being asked is cancelled."""
        self._address = None
        if self._server is not None:
            self._server.close()
            self._server = None
        self._open.close()
        tasks = [*self._serving.values(), *self._dismissed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self._portal = Portal()
        try:
            self._portal.call(self.start())
        except BaseException:
            self._portal.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._portal is not None:
            try:
                self._portal.call(self.aclose())
            finally:
                self._portal.close()

    def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = HandlerConnection(reader, writer, self._limits, self._room.place())
        if self._address is None:
            peer.abort()
            return
        if len(self._serving) < self._limits.connections or self._make_room():
            self._begin(self._serving, peer, self._serve(peer))
        elif len(self._dismissed) < self._limits.connections:
            why = _busy("too many connections are open here; try again later")
            self._begin(self._dismissed, peer, peer.refuse(why))
        else:
            peer.abort()

    def _begin(
        self,
        among: dict[HandlerConnection, asyncio.Task[None]],
        peer: HandlerConnection,
        work: Coroutine[Any, Any, None],
    ) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            # Here and not in the work: one that is cancelled before its first step has no `finally`.
            peer.abort()
            if among.get(peer) is task:
                del among[peer]

        among[peer] = asyncio.get_running_loop().create_task(work)
        among[peer].add_done_callback(ended)

    def _make_room(self) -> bool:
        """Closes the oldest of the connections that ask for nothing."""
        idle = next((peer for peer in self._serving if peer.is_idle), None)
        if idle is None:
            return False
        self._serving.pop(idle).cancel()
        return True

    async def _serve(self, peer: HandlerConnection) -> None:
        try:
            while (body := await peer.request()) is not None:
                response = await self._until_gone(peer, body)
                if response is None or not await peer.send(response):
                    return
                del body, response  # or they are held while the next one is waited for
        except FrameError as error:
            await peer.refuse(LMResponse(error=str(error)))
        except HandlerBusy as error:
            await peer.refuse(_busy(str(error)))
        except OSError as error:
            logger.debug("a client was lost: %s", error)

    async def _until_gone(self, peer: HandlerConnection, body: bytes) -> LMResponse | None:
        """The answer, or None if nobody waits for it any more."""
        asking = asyncio.create_task(self._answer(body))
        leaving = asyncio.create_task(peer.gone())
        try:
            done, _ = await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if asking in done or not leaving.result():
                return await asking
            return None
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    async def _answer(self, body: bytes) -> LMResponse:
        try:
            return await answered(self._queries, self._admitted(request_of(body)))
        except (HandrailError, ValueError) as error:
            return LMResponse(error=redact_text(str(error)))
        except Exception as error:
            logger.exception("a request to the handler failed")
            return LMResponse(error=redact_text(f"the handler failed: {describe_exception(error)}"))

    def _admitted(self, request: LMRequest) -> LMRequest:
        if self._secret is not None:
            given = (request.metadata or {}).get("secret")
            shown = given.encode() if isinstance(given, str) else b""
            if not hmac.compare_digest(shown, self._secret.encode()):
                raise UsageError("this handler answers only those who send its secret, as metadata.secret")
        return request


def _busy(why: str) -> LMResponse:
    return LMResponse(error=why, metadata={"error_type": RateLimited.code})


def _bound_path(path: Path) -> closing[socket.socket]:
    """A Unix socket that only its owner can use. Until it listens nobody can connect, whatever its mode is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        os.chmod(path, 0o600)
    except OSError as error:
        listener.close()
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen at {str(path)!r}: {why}; choose another path, or remove the file") from error
    return closing(listener)


def _remove(path: Path, made: os.stat_result) -> None:
    """The socket that we made, and not one that somebody else made in its place meanwhile."""
    with suppress(OSError):
        if os.path.samestat(path.lstat(), made):
            path.unlink()


_AT_ONCE = 16


async def answered(queries: Queries, request: LMRequest) -> LMResponse:
    """The completions of a request, as a response.

    Raises:
        ValueError: It cannot be asked as it is.
        UsageError: It asks for nothing.
        JournalError: The record cannot be kept.
    """
    if request.is_batched or (request.prompts is not None and request.prompt is None):
        return LMResponse(chat_completions=await _batch(queries, request), metadata={"tagged": True})
    if request.prompt is None:
        raise UsageError("Missing 'prompt' or 'prompts' in request.")
    found = await _one(queries, request, request.prompt, request.response_format)
    # Clients look for a failure here, and find its kind in the completion.
    return LMResponse(error=found.error, chat_completion=found, metadata={"tagged": True})


async def _one(queries: Queries, request: LMRequest, prompt: Any, form: Any) -> RLMChatCompletion:
    model, depth = request.model, request.depth
    if request.tools is None:
        return await queries.query(prompt, model, form, tool_choice=request.tool_choice, depth=depth)
    choice = request.tool_choice
    return _twofold(await queries.turn(prompt, model, form, request.tools, tool_choice=choice, depth=depth))


async def _batch(queries: Queries, request: LMRequest) -> list[RLMChatCompletion]:
    prompts = request.prompts or []
    forms = request.response_formats or [request.response_format] * len(prompts)
    if request.tools is None:
        return await queries.batched(prompts, request.model, forms, depth=request.depth)
    if len(forms) != len(prompts):
        raise ValueError(f"Invalid response_formats: give one for each of the {len(prompts)} prompts, not {len(forms)}")
    return await run_all_bounded(len(prompts), lambda at: _one(queries, request, prompts[at], forms[at]), _AT_ONCE)


def _twofold(found: RLMChatCompletion) -> RLMChatCompletion:
    """A reply with calls as those read it who look at its text."""
    if not found.tool_calls:
        return found
    told = {"tool_calls": found.tool_calls, "content": found.response or None}
    return msgspec.structs.replace(found, response=msgspec.json.encode(told).decode())
