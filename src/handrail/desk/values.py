"""What the page and the terminal program are told. Values only; `to_builtins` of them goes over the wire.

Times are milliseconds since 1970. Texts are as they came: whoever shows them makes them harmless. Secrets are
masked already, and what is very long is cut, with `whole` saying how long it is.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from handrail.core.errors import Outcome

State = Literal["idle", "working", "waiting", "failed"]
"""`waiting`: for a person's word. `failed`: the last turn came to nothing, or a tool in it failed."""


# ── a conversation ───────────────────────────────────────────────────────────────────


class TalkSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation in a list."""

    id: str
    title: str
    created: int
    updated: int
    messages: int
    state: State = "idle"
    forked_from: str | None = None
    excerpt: str = ""
    """Where a search found its words."""


class Clipped(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that may be too long to be shown at once."""

    text: str
    whole: int = 0
    """Characters of all of it, where this is only its beginning; `Desk.whole` has the rest."""


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment of a message or of a result: never its bytes."""

    name: str
    media_type: str
    size: int = 0
    url: str = ""


class Item(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a conversation. A call and its result are two, with one `call_id`."""

    index: int
    kind: Literal["user", "assistant", "supervisor", "document", "call", "result"]
    at: int = 0
    text: Clipped | None = None
    """Of a call nothing; of a result its content, JSON spread over lines."""
    parts: tuple[Part, ...] = ()
    name: str = ""
    """Of a document; of a call or result the tool, as `io:write_file`."""
    model: str = ""
    tokens: tuple[int, int] | None = None
    """In and out, of a reply."""
    cost: float | None = None
    call_id: str = ""
    arguments: Any = None
    """Of a call: an object, or the text that was none; secrets masked."""
    outcome: Outcome | None = None
    error: str = ""
    """The code of a failed result."""
    duration_us: int | None = None
    reused_from: str | None = None
    notes: tuple[str, ...] = ()
    """What else there is to say of a result, as that a person changed the arguments, and to what."""
    side_effects: bool = False


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something waits for a person's word. This is exactly what will run."""

    request: str
    conversation: str
    """Of the conversation that it is in; a tool that is tried out has an id of its own."""
    run: str
    call_id: str
    tool: str
    description: str
    arguments: dict[str, Any]
    """Secrets masked. For programs: numbers that a browser would round are texts."""
    written: str = ""
    """The same for people, as JSON: exactly what will run, but for secrets. One that is still masked in an edit means
    the secret as it is."""
    input_schema: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    """Why a person is asked although a standing rule may cover the call."""
    rules: tuple[str, ...] = ()
    """Rules that `always` may set, the narrowest first, as `allow io:write_file@sha256:… path=docs/x.md`."""
    form: dict[str, Any] | None = None
    """A schema where values are asked for and no word (an MCP server's elicitation)."""


class LiveCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that is being written or made."""

    call_id: str
    name: str
    written: str = ""
    """The text of its arguments as far as it has come."""
    arguments: Any = None
    """Once it is whole."""
    stage: Literal["writing", "asked", "running", "done"] = "writing"
    begun: int = 0
    current: float | None = None
    total: float | None = None
    says: str = ""
    """What it says of its progress."""
    outcome: Outcome | None = None
    error: str = ""
    result: Clipped | None = None
    duration_us: int | None = None
    notes: tuple[str, ...] = ()
    side_effects: bool = False
    run: str = ""
    """Of a tool that is tried: where it is in the record. In a conversation that is said once for all calls."""


class Live(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of the turn under way is in no message yet."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[LiveCall, ...] = ()
    notices: tuple[str, ...] = ()
    model: str = ""
    begun: int = 0


class Alert(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool or a turn failed: said at once, with how to go on."""

    id: str
    conversation: str
    at: int
    kind: Literal["tool", "model", "limit", "stopped"]
    message: str
    tool: str = ""
    call_id: str = ""
    outcome: Outcome | None = None
    code: str = ""
    upto: int = 0
    """`undo` to here takes back the turn that it happened in; the words of that turn can then be edited."""
    words: str = ""
    """What the person had said in that turn."""


class Snapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation as it is now: its last messages, and what is under way."""

    id: str
    title: str
    state: State
    total: int
    items: tuple[Item, ...]
    """The last ones; `items[0].index` says from where."""
    cursor: int
    """Events after this number are news."""
    model: str
    ensembles: tuple[str, ...] | None = None
    """Which of them are offered; None is all."""
    live: Live | None = None
    questions: tuple[Question, ...] = ()
    alert: Alert | None = None
    """The failure that a person has not answered yet."""
    run: str = ""
    """In the record."""
    forked_from: str | None = None


class Told(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a conversation, as everybody who follows it is told."""

    n: int
    type: str
    """`text`, `reasoning`, `call`, `notice`, `question`, `answered`, `state`, `items`, `alert`, `about`, `gone`."""
    data: Any = None
    """text, reasoning, notice: {"text"}. call: a `LiveCall`, whole, in place of the one with its id. question: a
    `Question`. answered: {"request", "decision", "by"}. state: {"state", "model", "begun"}. items: {"from", "items",
    "total", "calls"}: every message from that index on is replaced, and of what is live only these calls are left.
    alert: an `Alert`, or {} once it is answered. about: {"title", "model", "ensembles"}. gone: {} (it was deleted)."""


class Attached(Struct, frozen=True, kw_only=True):
    """A file that a person gives with their words."""

    name: str
    media_type: str
    data: bytes
    """In base64 on the wire."""


class File(Struct, frozen=True, kw_only=True):
    """Something to be saved."""

    name: str
    media_type: str
    data: bytes


# ── the node ─────────────────────────────────────────────────────────────────────────


class ModelChoice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    model: str = ""
    """`provider:model`."""
    is_default: bool = False


class EnsembleChoice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    """`""` is the tools that are in none."""
    source: str = ""
    """Where it comes from: a file, an MCP server, a module."""
    tools: int = 0
    problem: str = ""


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page needs to begin."""

    name: str
    version: str
    node_id: str
    person: str
    models: tuple[ModelChoice, ...]
    ensembles: tuple[EnsembleChoice, ...]
    tools: int
    settings_writable: bool = False


# ── tools ────────────────────────────────────────────────────────────────────────────


class ToolRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool in a list, with what is known of its use."""

    name: str
    """Scoped, as `io:write_file`."""
    summary: str
    ensemble: str = ""
    source: str = ""
    effects: str = ""
    """`reads`, `writes`, `writes once` and so on: as `handrail tools list` says it."""
    side_effects: bool = False
    deprecated: bool = False
    offered: int = 0
    picked: int = 0
    failed: int = 0
    p50_us: int = 0
    p95_us: int = 0
    recent: tuple[int, ...] = ()
    """The last durations, at most 40, the newest last: for a small plot. A failed call is negative."""


class ToolPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about one tool."""

    row: ToolRow
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    examples: tuple[Any, ...] = ()
    definition: str = ""
    """The digest of its definition."""
    tags: tuple[str, ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)
    """timeout, retries, isolation, concurrency, idempotent, cacheable, and whatever else it has."""
    rules: tuple[str, ...] = ()
    """The standing rules that may decide calls of it, in the order in which they are asked."""
    outcomes: dict[str, int] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Fields that are masked wherever the call is shown."""


# ── proof ────────────────────────────────────────────────────────────────────────────


class RunRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    started: int
    ended: int = 0
    calls: int = 0
    failed: int = 0
    in_doubt: int = 0
    entries: int = 0
    state: str = ""
    title: str = ""
    """Of the conversation, if it is one."""
    tools: tuple[str, ...] = ()
    """Some that it called, by name."""


class EntryRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the record with everything that shows it is there, for the browser to check."""

    seq: int
    type: str
    at: int
    leaf: str
    """The exact bytes, as text: what is hashed."""
    proof: tuple[str, ...]
    """Hex, from the leaf up."""
    says: str
    """In a few words for people."""
    call_id: str = ""
    tool: str = ""
    salt: str | None = None
    body: str | None = None
    """None if it has none, or it was erased, or is too long to be shown with the others."""
    erased: bool = False
    body_size: int = 0


class RunPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run as it can be verified: `checkpoint` signs a root, and every entry's proof leads to it."""

    row: RunRow
    entries: tuple[EntryRow, ...]
    first: int
    """Of all entries of the run, which is the first here: 0 is from the beginning."""
    count: int
    """All entries of the run."""
    checkpoint: str
    """A signed note; it carries the run and its number of entries as an extension line."""
    verifier_key: str
    size: int
    """Entries of the journal that the checkpoint signs."""


# ── network ──────────────────────────────────────────────────────────────────────────


class CapabilityRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    """With its version."""
    description: str = ""
    in_flight: int = 0
    side_effects: bool = False
    streams: bool = False


class NodeRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    node_id: str
    name: str = ""
    local: bool = False
    state: Literal["here", "there", "lost"] = "there"
    capabilities: tuple[CapabilityRow, ...] = ()
    in_flight: int = 0
    seen: int = 0
    """When it was last heard of."""


class TraceRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: int
    trace: str
    capability: str
    from_node: str
    to_node: str
    result: str
    ms: float


class Network(Struct, frozen=True, kw_only=True, omit_defaults=True):
    nodes: tuple[NodeRow, ...]
    traces: tuple[TraceRow, ...]
    """The newest first."""
    under_way: int = 0
    lost: int = 0
    """Workers that were lost since the node began."""
    answered: int = 0
    failed: int = 0


# ── settings ─────────────────────────────────────────────────────────────────────────


class Section(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the configuration as it holds now: names and values, for people."""

    name: str
    """As in the file: `models`, `limits`, `mcp`, `rules` …"""
    values: tuple[tuple[str, str], ...] = ()


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    file: str | None
    """Where it stands; None if there is no file yet."""
    text: str
    revision: str
    """The digest of the text: whoever saves says what they changed."""
    sections: tuple[Section, ...]
    rules: tuple[str, ...] = ()
    """Standing words that a person gave at the page, which stand in the person's own file."""
    writable: bool = False
    problem: str = ""
    """What is wrong with the file now, so that an older reading of it holds."""
