"""botocore as a judge of our wire: its model of the service checks requests, its parser reads event streams."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import botocore.session
import msgspec
from botocore.eventstream import EventStream
from botocore.parsers import EventStreamJSONParser
from botocore.validate import ParamValidator

Event = dict[str, Any]


@cache
def operation(name: str) -> Any:
    return botocore.session.Session().get_service_model("bedrock-runtime").operation_model(name)


def accepts(body: dict[str, Any]) -> bool:
    report = ParamValidator().validate({"modelId": "anthropic.claude-x", **body}, operation("Converse").input_shape)
    assert not report.has_errors(), report.generate_report()
    return True


def event_bytes(event: Event) -> bytes:
    """An event as Bedrock writes it to the wire: lengths, headers, JSON and checksums."""
    ((kind, payload),) = event.items()
    exceptional = kind.endswith("Exception")
    names = {":message-type": "exception" if exceptional else "event", ":content-type": "application/json"}
    names[":exception-type" if exceptional else ":event-type"] = kind
    headers = b"".join(_header(name, value) for name, value in names.items())
    body = msgspec.json.encode(payload)
    prelude = struct.pack("!II", len(headers) + len(body) + 16, len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack("!I", zlib.crc32(message))


def parsed(events: Iterable[Event]) -> list[Event]:
    """What botocore makes of those bytes."""

    class Body:
        def stream(self, amount: int = 1024) -> Iterable[bytes]:
            return (event_bytes(event) for event in events)

        def close(self) -> None:
            raise NotImplementedError

    shape = operation("ConverseStream").output_shape.members["stream"]
    stream = EventStream(Body(), shape, EventStreamJSONParser(), "ConverseStream")
    return cast(list[Event], list(stream))


def _header(name: str, value: str) -> bytes:
    return struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
