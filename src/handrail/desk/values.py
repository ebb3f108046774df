"""What the page and the terminal program are told. Values only; `to_builtins` of them goes over the wire.

Times are milliseconds since 1970. Texts are as they came: whoever shows them makes them harmless. Secrets are
masked already, and what is very long is cut, with `whole` saying how long it is.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from handrail.core.errors import Outcome
from handrail.core.footnotes import FootnoteMark, FootnoteSource

State = Literal["idle", "working", "waiting", "failed"]
"""`waiting`: for a person's decision. `failed`: the last turn failed, or a tool in it failed."""


# ── a conversation ───────────────────────────────────────────────────────────────────


class ConversationSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation in a list."""

    id: str
    title: str
    created: int
    updated: int
    messages: int
    state: State = "idle"
    forked_from: str | None = None
    excerpt: str = ""
    """The place where a search found its words."""


class ClippedText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that may be too long to be shown at once."""

    text: str
    whole: int = 0
    """Characters of all of it, where this is only its beginning; `Desk.whole` has the rest."""


class ItemAttachment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment of a message or of a result: never its bytes."""

    name: str
    media_type: str
    size: int = 0
    url: str = ""


class ShownServiceCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that the service of the model ran itself. Nothing of it ran here."""

    id: str
    name: str
    arguments: Any = None
    """Secrets masked, long texts cut."""
    written: str = ""
    """The same as JSON, where `arguments` cannot say it exactly."""
    result: ClippedText | None = None
    """The result; None if the service does not show it."""
    failed: bool = False


class ConversationItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a conversation. A call and its result are two, with one `call_id`."""

    index: int
    kind: Literal["user", "assistant", "supervisor", "document", "call", "result"]
    at: int = 0
    text: ClippedText | None = None
    """The text: empty for a call; for a result its content, JSON spread over lines."""
    parts: tuple[ItemAttachment, ...] = ()
    name: str = ""
    """The name of a document; of a call or result that of the tool, as `io:write_file`."""
    model: str = ""
    tokens: tuple[int, int] | None = None
    """The tokens of a reply, in and out."""
    cost: float | None = None
    call_id: str = ""
    arguments: Any = None
    """The arguments of a call: an object, or the text that was none; with secrets masked."""
    written: str = ""
    """The same as JSON, where `arguments` cannot say it exactly: with a number that a browser would round."""
    outcome: Outcome | None = None
    error: str = ""
    """The code of a failed result."""
    duration_us: int | None = None
    reused_from: str | None = None
    notes: tuple[str, ...] = ()
    """What else there is to say of a result, as that a person changed the arguments, and to what."""
    side_effects: bool = False
    sources: tuple[FootnoteSource, ...] = ()
    """The sources that a reply cites."""
    marks: tuple[FootnoteMark, ...] = ()
    """Where the numbers of the sources stand in all of its text, in UTF-16 units, as a browser counts them."""
    more_sources: int = 0
    """The number of sources that are not listed."""
    service_calls: tuple[ShownServiceCall, ...] = ()
    """The calls of a reply that its service ran."""


class RuleValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule holds one argument to, with every letter that could deceive written as an escape."""

    name: str
    value: str
    inside: bool = False
    """Whether it is a folder, and anything in it fits; else only the value itself does."""


class RuleOffer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that `always` may set, as facts for a sentence. It holds until a person takes it back, and only while the
    tool stays as it is."""

    rule: str
    """The rule as it is written, with the digest of the tool's definition."""
    tool: str
    values: tuple[RuleValue, ...] = ()
    free: tuple[str, ...] = ()
    """The arguments of the call that may be anything."""


class DeskQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something waits for a person's decision. This is exactly what will run."""

    request: str
    conversation: str
    """Of the conversation that it is in; a tool that is tried out has an id of its own. Empty if another program asked
    it, as an MCP proxy: then it can be allowed or denied, and nothing in it can be changed."""
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
    offers: tuple[RuleOffer, ...] = ()
    """The same rules, as what a person reads before they choose one."""
    form: dict[str, Any] | None = None
    """A schema where values are asked for and no word (an MCP server's elicitation)."""
    unseen: str = ""
    """Why it can only be denied: what would run cannot be shown."""


class LiveCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that is being written or made."""

    call_id: str
    name: str
    written: str = ""
    """The text of its arguments as far as it has come; of a whole call as in `ConversationItem`."""
    arguments: Any = None
    """The arguments, once they are complete."""
    stage: Literal["writing", "asked", "running", "done"] = "writing"
    begun: int = 0
    current: float | None = None
    total: float | None = None
    says: str = ""
    """What it says of its progress."""
    outcome: Outcome | None = None
    error: str = ""
    result: ClippedText | None = None
    duration_us: int | None = None
    notes: tuple[str, ...] = ()
    side_effects: bool = False
    run: str = ""
    """The run of a tool's trial. In a conversation it is sent once for all calls."""


class LiveTurn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of the turn under way is in no message yet."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[LiveCall, ...] = ()
    notices: tuple[str, ...] = ()
    model: str = ""
    begun: int = 0
    service_calls: tuple[ShownServiceCall, ...] = ()


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


class ConversationSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation as it is now: its last messages, and what is under way."""

    id: str
    title: str
    state: State
    total: int
    items: tuple[ConversationItem, ...]
    """The last ones; `items[0].index` says from where."""
    cursor: int
    """Events after this number are news."""
    model: str
    ensembles: tuple[str, ...] | None = None
    """Which of them are offered; None is all."""
    off: tuple[str, ...] = ()
    """Tools that are switched off, by their scoped names."""
    live: LiveTurn | None = None
    questions: tuple[DeskQuestion, ...] = ()
    alert: Alert | None = None
    """The failure that a person has not answered yet."""
    run: str = ""
    """The run in the record."""
    forked_from: str | None = None


class ConversationEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a conversation, as everybody who follows it is told."""

    n: int
    type: str
    """`text`, `reasoning`, `call`, `service_call`, `notice`, `question`, `answered`, `state`, `items`, `alert`,
    `about`, `gone`."""
    data: Any = None
    """text, reasoning, notice: {"text"}. call: a `LiveCall`, whole, in place of the one with its id. service_call: a
    `ShownServiceCall`. question: a `DeskQuestion`. answered: {"request", "decision", "by"}. state: {"state", "model",
    "begun"}. items: {"from", "items", "total", "calls"}: every message from that index on is replaced, and of what is
    live only these calls are left. alert: an `Alert`, or {} once it is answered. about: {"title", "model",
    "ensembles", "off"}. gone: {} (it was deleted)."""


class AttachedFile(Struct, frozen=True, kw_only=True):
    """A file that a person gives with their words."""

    name: str
    media_type: str
    data: bytes
    """The bytes, as base64 on the wire."""


class FileDownload(Struct, frozen=True, kw_only=True):
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
    can: tuple[Literal["tools", "images", "files"], ...] = ()
    """What is known of it: that it calls tools, sees pictures, reads PDF files. Of a service that is not known,
    nothing."""


class EnsembleChoice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    """`""` is the tools that are in none."""
    source: str = ""
    """Where the ensemble comes from: a file, an MCP server, a module."""
    tools: int = 0
    names: tuple[str, ...] = ()
    """The scoped names of its tools."""
    problem: str = ""


class ExampleInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument that an example needs."""

    name: str
    value: str = ""
    """The tool's own example value; empty is for the person to fill in."""


class ExamplePrompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that may be asked first, made of a tool that is there."""

    tool: str
    says: str
    """The first sentence of its description."""
    inputs: tuple[ExampleInput, ...] = ()
    reads: bool = False
    """Whether it changes nothing."""


class DeskInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page needs to begin."""

    name: str
    version: str
    node_id: str
    person: str
    models: tuple[ModelChoice, ...]
    ensembles: tuple[EnsembleChoice, ...]
    tools: int
    """The tools that a person chooses from."""
    settings_writable: bool = False
    examples: tuple[ExamplePrompt, ...] = ()
