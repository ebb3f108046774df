"""One connection that brings the frames of a call, and how it ends without having brought them all."""

from __future__ import annotations

from typing import Any, Protocol

from handrail.node.bus.stream_frame import StreamFrame


class LinkLost(Exception):
    """The connection is gone, and the call may go on without us."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent
        """Whether the other node may have got what was asked."""


class SocketsUnsupported(Exception):
    """This node does not stream that way: by server-sent events it may."""


class FrameLink(Protocol):
    async def next(self) -> StreamFrame:
        """Raises:
        Lost: There will be no more.
        Elsewhere: It has to be asked in another way, and nothing was begun.
        BusError: The node refused.
        """
        ...

    async def tool_result(self, tool_call_id: str, body: Any, is_error: bool) -> None:
        """Send an answer; if it does not get there, whoever takes up the stream sends it again."""
        ...

    async def cancel(self) -> bool:
        """Ask for the end of the call: whether its last frame is still to come."""
        ...

    async def close(self) -> None: ...
