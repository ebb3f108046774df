"""The frames of a call as server-sent events: one request, and one more for each time the connection is lost."""

from __future__ import annotations

from collections import deque
from typing import Any

from handrail.core.errors import BusError
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient, HttpNotConnected, request_head
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.http.error_answers import PROXIES, error_of_answer
from handrail.node.http.frame_link import LinkLost
from handrail.node.http.http_call import HttpCall
from handrail.node.http.sse_frames import SseFrameDecoder

_ERROR_READ = 256 * 1024


class SseLink:
    """Read it from one task. It cannot answer in mid-stream: who has to, takes a socket."""

    def __init__(self, answer: HttpAnswer) -> None:
        self._answer = answer
        self._events = SseFrameDecoder()
        self._ready: deque[StreamFrame] = deque()

    @classmethod
    async def open(cls, client: HttpClient, address: HttpAddress, ask: HttpCall, attempt: int, after: int) -> SseLink:
        """Ask, or take up what was asked before, after a frame.

        Raises:
            Lost, BusError: As `Link.next`.
        """
        headers = {**ask.headers(attempt), "accept": "text/event-stream"}
        if attempt > 1:
            headers["last-event-id"] = str(after)
        try:
            answer = await client.ask(address, request_head("POST", address, headers), ask.payload)
        except HttpNotConnected as error:
            raise LinkLost(str(error), sent=False) from error
        except (OSError, BadHttpAnswer) as error:
            raise LinkLost(str(error) or type(error).__name__) from error
        if answer.status == 200 and answer.media_type == "text/event-stream":
            return cls(answer)
        try:
            raise await refusal_error(answer)
        finally:
            answer.close()

    async def next(self) -> StreamFrame:
        while not self._ready:
            try:
                chunk = await self._answer.read()
                self._ready.extend(self._events.feed(chunk))
            except (OSError, BadHttpAnswer) as error:
                raise LinkLost(str(error) or type(error).__name__) from error
            if not chunk and not self._ready:
                raise LinkLost("the stream broke off before its last frame")
        return self._ready.popleft()

    async def tool_result(self, tool_call_id: str, body: Any, is_error: bool) -> None:
        raise BusError("bad_request", "server-sent events go one way; stream with interactive=True to answer calls")

    async def cancel(self) -> bool:
        """To hang up is all that can be done; the node ends the call when it notices."""
        await self.close()
        return False

    async def close(self) -> None:
        self._answer.close()


async def refusal_error(answer: HttpAnswer) -> Exception:
    """What is to be raised for an answer that is no success."""
    body = b""
    try:
        while len(body) < _ERROR_READ and (piece := await answer.read()):
            body += piece
    except (OSError, BadHttpAnswer) as error:
        return LinkLost(str(error) or type(error).__name__)
    if answer.status in PROXIES:
        return LinkLost(f"something before the node answered {answer.status}")
    return error_of_answer(answer.status, body)
