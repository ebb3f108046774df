"""Requests whose end two programs could see in different places are refused (request smuggling, RFC 9112 section 11.2).

h11 is lenient: it takes a bare line feed for the end of a line, unfolds folded headers, and lets `Transfer-Encoding`
win over `Content-Length`. A proxy before us may read the same bytes as another request. So the raw head is looked at
before h11 reads it, and so is the end of a body in chunks.
"""

from __future__ import annotations

import re
from typing import Any

import h11

_END = re.compile(rb"\n\r?\n")
"""The pattern of the end of a head, as h11 reads it."""
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\n[ \t]")
_NAMES = re.compile(rb"^([^:\r\n]+):", re.MULTILINE)


def request_ambiguity(head: bytes) -> str | None:
    """Why the head of a request is refused; None if every program reads it in the same way.

    `head` ends with its blank line.
    """
    if _BARE_LINE_FEED.search(head):
        return "a line ends with a bare line feed; end each with CR LF"
    if _FOLDED.search(head):
        return "a header is folded over two lines; write it on one"
    request_line, _, fields = head.partition(b"\r\n")
    names = [name.strip().lower() for name in _NAMES.findall(fields)]
    if b"transfer-encoding" not in names:
        return None
    if b"content-length" in names:
        return "it has both Content-Length and Transfer-Encoding; send one of them"
    if request_line.endswith(b"HTTP/1.0"):
        return "HTTP/1.0 has no Transfer-Encoding; send a Content-Length"
    return None


class StrictConnection(h11.Connection):
    """A server's h11 connection that refuses ambiguous requests."""

    refusal: str = ""
    """Why the last request was refused, if it was for this."""
    _in_chunks = False

    def next_event(self) -> Any:
        """Returns h11's next event.

        Raises:
            h11.RemoteProtocolError: The request is malformed or ambiguous.
        """
        if self.their_state is h11.IDLE:
            self._check_head()
        if not self._in_chunks:
            event = super().next_event()
        else:
            before = self.trailing_data[0]
            event = super().next_event()
            if isinstance(event, h11.EndOfMessage):
                self._check_last_chunk(event, before)
        if isinstance(event, h11.Request):
            self._in_chunks = any(name == b"transfer-encoding" for name, _ in event.headers)
        return event

    def _check_head(self) -> None:
        received = self.trailing_data[0]
        end = _END.search(received)
        if end is not None and (why := request_ambiguity(received[: end.end()])) is not None:
            self._refuse(why)

    def _check_last_chunk(self, event: h11.EndOfMessage, before: bytes) -> None:
        self._in_chunks = False
        read = before[: len(before) - len(self.trailing_data[0])]
        if event.headers:
            self._refuse("its chunks end with headers, which this server does not take; send them at the beginning")
        if _BARE_LINE_FEED.search(read):
            self._refuse("its last chunk ends with a bare line feed; end each line with CR LF")

    def _refuse(self, why: str) -> None:
        self.refusal = why
        raise h11.RemoteProtocolError(why)
