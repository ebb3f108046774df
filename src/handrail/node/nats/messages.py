"""What travels over NATS: the messages of a call, both ways, and the subjects they go to.

Each is one JSON object with its `kind`. A call has a `call_id`, the same for every attempt at it, and each attempt a
`ref` that only the two ends know: whoever steers or asks after a call must name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from handrail.core.errors import UsageError
from handrail.node.bus.versions import Version

T = TypeVar("T")

PROTOCOL = 1
QUEUE = "workers"
"""The queue group of every capability's subject: one worker of them gets a call."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Message(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    pass


# ── from the caller ──────────────────────────────────────────────────────────────────────


class NatsRequest(_Message, frozen=True, tag="request"):
    """A call, to whoever takes it."""

    ref: str
    call_id: str
    capability: str
    version: str
    """The version: at least this minor of this major."""
    v: int = PROTOCOL
    body: dict[str, Any] | None = None
    """The body; None if it is too large for one message: then it comes with `go`."""
    sender: str = field(default="", name="from")
    community: str = ""
    timestamp: str = ""
    signature: str = ""
    token: str = ""
    timeout_ms: int | None = None
    """The time that the caller still waits; no clock is compared with another."""
    depth: int = 0
    within: tuple[tuple[str, ...], ...] = ()
    traceparent: str = ""
    window: int = 64
    """The most chunks that may be under way at once."""
    stream: bool = False
    interactive: bool = False
    session_id: str | None = None
    schema_hash: str | None = None

    def __repr__(self) -> str:
        return f"NatsRequest({self.capability}@{self.version}, {self.call_id})"  # it holds a token


class NatsGo(_Message, frozen=True, tag="go"):
    """Begin: from here on the call may have taken effect."""

    ref: str
    timeout_ms: int | None = None
    body: dict[str, Any] | None = None


class NatsCredit(_Message, frozen=True, tag="credit"):
    ref: str
    upto: int
    """The last chunk that was used."""


class NatsCancel(_Message, frozen=True, tag="cancel"):
    ref: str


class NatsStatus(_Message, frozen=True, tag="status"):
    """What became of it? What came after this chunk is sent again."""

    ref: str
    after: int = 0


class NatsToolAnswer(_Message, frozen=True, tag="tool_result"):
    ref: str
    tool_call_id: str
    body: Any = None
    is_error: bool = False


class NatsDescribe(_Message, frozen=True, tag="describe"):
    """What does this worker offer? Answered with `NatsDescribed`."""


CallerMessage = NatsRequest | NatsGo | NatsCredit | NatsCancel | NatsStatus | NatsToolAnswer | NatsDescribe


# ── from the worker ──────────────────────────────────────────────────────────────────────


class NatsAccepted(_Message, frozen=True, tag="accepted"):
    """The worker has the call. It is left out if the answer is there at once."""

    worker: str
    lease_ms: int
    """The silence after which the worker counts as lost."""
    retriable: bool = True
    side_effects: bool = False
    waits: bool = False
    """The call does not begin before `go`; without one, within the lease, it never does."""
    seq: int = 0
    """The last chunk that was sent: one that was lost on the way shows."""


class NatsHeartbeat(NatsAccepted, frozen=True, tag="heartbeat"):
    """The worker still has the call. It repeats what `NatsAccepted` said, which may have been lost."""


class NatsChunk(_Message, frozen=True, tag="chunk"):
    seq: int
    event: str
    data: dict[str, Any]
    worker: str = ""


class NatsResult(_Message, frozen=True, tag="result"):
    """The end: the response, or of a stream the data of `done`."""

    seq: int
    body: dict[str, Any]
    worker: str = ""


class NatsFailure(_Message, frozen=True, tag="error"):
    seq: int
    error: dict[str, Any]
    worker: str = ""


class NatsBusy(_Message, frozen=True, tag="busy"):
    """The call is surely not begun here: another worker may be asked."""

    worker: str
    error: dict[str, Any] = field(default_factory=dict)
    """What to tell the caller if there is no other."""


class NatsUnknownCall(_Message, frozen=True, tag="unknown"):
    """The worker knows nothing of such a call."""

    worker: str


class NatsDescribed(_Message, frozen=True, tag="described"):
    node_id: str
    offers: list[dict[str, Any]]
    """Descriptors as discovery shows them, each with `in_flight`."""


class NatsToolAnswerReceipt(_Message, frozen=True, tag="answered"):
    """An answer to a tool call was taken, or not."""

    error: dict[str, Any] | None = None


WorkerMessage = (
    NatsAccepted
    | NatsHeartbeat
    | NatsChunk
    | NatsResult
    | NatsFailure
    | NatsBusy
    | NatsUnknownCall
    | NatsDescribed
    | NatsToolAnswerReceipt
)

_CALLER_DECODER: msgspec.json.Decoder[CallerMessage] = msgspec.json.Decoder(CallerMessage)
_WORKER_DECODER: msgspec.json.Decoder[WorkerMessage] = msgspec.json.Decoder(WorkerMessage)
encode_nats_message: Callable[[CallerMessage | WorkerMessage], bytes] = msgspec.json.Encoder().encode


def decode_caller_message(data: bytes) -> CallerMessage:
    """What a caller sent.

    Raises:
        msgspec.MsgspecError: It is nothing of ours.
    """
    return _decoded(_CALLER_DECODER, data)


def decode_worker_message(data: bytes) -> WorkerMessage:
    """What a worker sent.

    Raises:
        msgspec.MsgspecError: It is nothing of ours.
    """
    return _decoded(_WORKER_DECODER, data)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """msgspec has three kinds of errors for what is no JSON; here it is one."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError("the message cannot be read") from error


class NatsSubjects(Struct, frozen=True):
    """The subjects of one community's messages. Names of capabilities begin with a letter: `_node` is none."""

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
