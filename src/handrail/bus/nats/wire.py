"""What travels over NATS: the messages of a call, both ways, and the subjects they go to.

Each is one JSON object with its `kind`. A call has a `call_id`, the same for every attempt at it, and each attempt a
`ref` that only the two ends know: whoever steers or asks after a call must name it.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from handrail.bus.versions import Version
from handrail.core.errors import UsageError

T = TypeVar("T")

PROTOCOL = 1
QUEUE = "workers"
"""The queue group of every capability's subject: one worker of them gets a call."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Message(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    pass


# ── from the caller ──────────────────────────────────────────────────────────────────────


class Request(_Message, frozen=True, tag="request"):
    """A call, to whoever takes it."""

    ref: str
    call_id: str
    capability: str
    version: str
    """At least this minor of this major."""
    v: int = PROTOCOL
    body: dict[str, Any] | None = None
    """None where it is too large for one message: it comes with `go`."""
    sender: str = field(default="", name="from")
    community: str = ""
    timestamp: str = ""
    signature: str = ""
    token: str = ""
    timeout_ms: int | None = None
    """How long the caller still waits; no clock is compared with another."""
    depth: int = 0
    within: tuple[tuple[str, ...], ...] = ()
    traceparent: str = ""
    window: int = 64
    """How many chunks may be under way at once."""
    stream: bool = False
    interactive: bool = False
    session_id: str | None = None
    schema_hash: str | None = None

    def __repr__(self) -> str:
        return f"Request({self.capability}@{self.version}, {self.call_id})"  # it holds a token


class Go(_Message, frozen=True, tag="go"):
    """Begin: from here on the call may have taken effect."""

    ref: str
    timeout_ms: int | None = None
    body: dict[str, Any] | None = None


class Credit(_Message, frozen=True, tag="credit"):
    ref: str
    upto: int
    """The last chunk that was used."""


class Cancel(_Message, frozen=True, tag="cancel"):
    ref: str


class Status(_Message, frozen=True, tag="status"):
    """What became of it? What came after this chunk is sent again."""

    ref: str
    after: int = 0


class ToolAnswer(_Message, frozen=True, tag="tool_result"):
    ref: str
    tool_call_id: str
    body: Any = None
    is_error: bool = False


class Describe(_Message, frozen=True, tag="describe"):
    """What does this worker offer? Answered with `Described`."""


Asked = Request | Go | Credit | Cancel | Status | ToolAnswer | Describe


# ── from the worker ──────────────────────────────────────────────────────────────────────


class Accepted(_Message, frozen=True, tag="accepted"):
    """It is here. Left out where the answer is there at once."""

    worker: str
    lease_ms: int
    """Nothing heard for so long: the worker is lost."""
    retriable: bool = True
    side_effects: bool = False
    waits: bool = False
    """It does not begin before `go`; without one, within the lease, it never does."""
    seq: int = 0
    """The last chunk that was sent: one that was lost on the way shows."""


class Heartbeat(Accepted, frozen=True, tag="heartbeat"):
    """It is still here. It says the same, for the first word may have been lost."""


class Chunk(_Message, frozen=True, tag="chunk"):
    seq: int
    event: str
    data: dict[str, Any]
    worker: str = ""


class Result(_Message, frozen=True, tag="result"):
    """The end: the response, or of a stream the data of `done`."""

    seq: int
    body: dict[str, Any]
    worker: str = ""


class Failure(_Message, frozen=True, tag="error"):
    seq: int
    error: dict[str, Any]
    worker: str = ""


class Busy(_Message, frozen=True, tag="busy"):
    """Not here, and surely not begun: ask another."""

    worker: str
    error: dict[str, Any] = field(default_factory=dict)
    """What to tell the caller if there is no other."""


class Unknown(_Message, frozen=True, tag="unknown"):
    """The worker knows nothing of such a call."""

    worker: str


class Described(_Message, frozen=True, tag="described"):
    node_id: str
    offers: list[dict[str, Any]]
    """Descriptors as discovery shows them, each with `in_flight`."""


class Answered(_Message, frozen=True, tag="answered"):
    """An answer to a tool call was taken, or not."""

    error: dict[str, Any] | None = None


Told = Accepted | Heartbeat | Chunk | Result | Failure | Busy | Unknown | Described | Answered

_ENCODER = msgspec.json.Encoder()
_ASKED: msgspec.json.Decoder[Asked] = msgspec.json.Decoder(Asked)
_TOLD: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)


def encode(message: Asked | Told) -> bytes:
    return _ENCODER.encode(message)


def asked(data: bytes) -> Asked:
    """What a caller sent.

    Raises:
        msgspec.MsgspecError: It is nothing of ours.
    """
    return _decoded(_ASKED, data)


def told(data: bytes) -> Told:
    """What a worker sent.

    Raises:
        msgspec.MsgspecError: It is nothing of ours.
    """
    return _decoded(_TOLD, data)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """msgspec has three kinds of errors for what is no JSON; here it is one."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError("the message cannot be read") from error


class Subjects(Struct, frozen=True):
    """Where the messages of one community go. Names of capabilities begin with a letter: `_node` is none."""

    community: str

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.community):
            raise UsageError(
                f"the community {self.community!r} cannot be part of a subject; use letters, digits, - and _"
            )

    @property
    def service(self) -> str:
        """The name by which NATS micro tools show the workers."""
        return f"cap-{self.community}"

    @property
    def news(self) -> str:
        """Workers that come, change and go say so here."""
        return f"cap.{self.community}._news"

    def capability(self, name: str, version: Version) -> str:
        return f"cap.{self.community}.{name}.{version[0]}"

    def worker(self, worker: str) -> str:
        """The one subject that only this worker hears."""
        return f"cap.{self.community}._node.{worker}"
