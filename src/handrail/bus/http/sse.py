"""The frames of a call as server-sent events: one request, and one more for each time the connection is lost."""

from __future__ import annotations

from collections import deque
from typing import Any

from handrail.bus.frames import Frame
from handrail.bus.http.answers import PROXIES, error_of
from handrail.bus.http.ask import Ask
from handrail.bus.http.events import Events
from handrail.bus.http.link import Lost
from handrail.core.errors import BusError
from handrail.http import Address, Answer, BadAnswer, Client, NotConnected, head

_ERROR_READ = 256 * 1024


class SseLink:
    """Read it from one task. It cannot answer in mid-stream: who has to, takes a socket."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._events = Events()
        self._ready: deque[Frame] = deque()

    @classmethod
    async def open(cls, client: Client, address: Address, ask: Ask, attempt: int, after: int) -> SseLink:
        """Ask, or take up what was asked before, after a frame.

        Raises:
            Lost, BusError: As `Link.next`.
        """
        headers = {**ask.headers(attempt), "accept": "text/event-stream"}
        if attempt > 1:
            headers["last-event-id"] = str(after)
        try:
            answer = await client.ask(address, head("POST", address, headers), ask.payload)
        except NotConnected as error:
            raise Lost(str(error), sent=False) from error
        except (OSError, BadAnswer) as error:
            raise Lost(str(error) or type(error).__name__) from error
        if answer.status == 200 and answer.media_type == "text/event-stream":
            return cls(answer)
        try:
            raise await refused(answer)
        finally:
            answer.close()

    async def next(self) -> Frame:
        while not self._ready:
            try:
                chunk = await self._answer.read()
                self._ready.extend(self._events.feed(chunk))
            except (OSError, BadAnswer) as error:
                raise Lost(str(error) or type(error).__name__) from error
            if not chunk and not self._ready:
                raise Lost("the stream broke off before its last frame")
        return self._ready.popleft()

    async def tool_result(self, tool_call_id: str, body: Any, is_error: bool) -> None:
        raise BusError("bad_request", "server-sent events go one way; stream with interactive=True to answer calls")

    async def cancel(self) -> bool:
        """To hang up is all that can be done; the node ends the call when it notices."""
        await self.close()
        return False

    async def close(self) -> None:
        self._answer.close()


async def refused(answer: Answer) -> Exception:
    """What is to be raised for an answer that is no success."""
    body = b""
    try:
        while len(body) < _ERROR_READ and (piece := await answer.read()):
            body += piece
    except (OSError, BadAnswer) as error:
        return Lost(str(error) or type(error).__name__)
    if answer.status in PROXIES:
        return Lost(f"something before the node answered {answer.status}")
    return error_of(answer.status, body)
