"""The frames of a call as server-sent events: one request, and one more for each time the connection is lost."""

from __future__ import annotations

from collections import deque
from typing import Any

from handrail.core.errors import BusError
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.http.http_call import HttpCall
from handrail.node.http.link_loss import LinkLost, ask_node, error_of_answer, read_answer, read_piece
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
            LinkLost, BusError: As `FrameLink.next`.
        """
        headers = {**ask.headers(attempt), "accept": "text/event-stream"}
        if attempt > 1:
            headers["last-event-id"] = str(after)
        answer = await ask_node(client, "POST", address, headers, ask.payload)
        if answer.status == 200 and answer.media_type == "text/event-stream":
            return cls(answer)
        raise error_of_answer(answer.status, await read_answer(answer, _ERROR_READ))

    async def next(self) -> StreamFrame:
        while not self._ready:
            chunk = await read_piece(self._answer)
            try:
                self._ready.extend(self._events.feed(chunk))
            except BadHttpAnswer as error:
                raise LinkLost(str(error)) from error
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
