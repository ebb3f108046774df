"""What the views of the tools, of the record, of the network and of the settings tell. As in `desk/values.py`: values
only, times in milliseconds since 1970, secrets masked.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from handrail.journal.trace import (
    DayUsage as DayUsage,
    RunTrace as RunTrace,
    TraceSpan as TraceSpan,
    TraceTotals as TraceTotals,
)

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
    """The title of the conversation, if the run is one."""
    tools: tuple[str, ...] = ()
    """The names of some tools that the run called."""


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
    """The event in a few words for people."""
    call_id: str = ""
    tool: str = ""
    salt: str | None = None
    body: str | None = None
    """The body; None if there is none, it was erased, or it is too long to be shown with the others."""
    erased: bool = False
    body_size: int = 0


class RunPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run as it can be verified: `checkpoint` signs a root, and every entry's proof leads to it."""

    row: RunRow
    entries: tuple[EntryRow, ...]
    first: int
    """The number of the first of these entries in the run; 0 is the beginning."""
    count: int
    """The number of all entries of the run."""
    checkpoint: str
    """A signed note; it carries the run and its number of entries as an extension line."""
    verifier_key: str
    size: int
    """Entries of the journal that the checkpoint signs."""


# ── network ──────────────────────────────────────────────────────────────────────────


class CapabilityRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    """The name with its version."""
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
    """The time at which the node was last heard of."""


class TraceRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: int
    trace: str
    capability: str
    from_node: str
    to_node: str
    result: str
    ms: float


class NetworkPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    nodes: tuple[NodeRow, ...]
    traces: tuple[TraceRow, ...]
    """The newest first."""
    under_way: int = 0
    lost: int = 0
    """Workers that were lost since the node began."""
    answered: int = 0
    failed: int = 0


# ── settings ─────────────────────────────────────────────────────────────────────────


class SettingsSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the configuration as it holds now: names and values, for people."""

    name: str
    """The name of the section in the file: `models`, `limits`, `mcp`, `rules` …"""
    values: tuple[tuple[str, str], ...] = ()


class SettingsPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    file: str | None
    """The path of the file; None if there is no file yet."""
    text: str
    revision: str
    """The digest of the text: whoever saves says what they changed."""
    sections: tuple[SettingsSection, ...]
    rules: tuple[str, ...] = ()
    """Standing words that a person gave at the page, which stand in the person's own file."""
    writable: bool = False
    problem: str = ""
    """What is wrong with the file now, so that an older reading of it holds."""


class SettingField(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting in a text."""

    path: tuple[str, ...]
    help: str
    """What names its help: the path with dots, and `*` where people give names."""
    form: str
    """flag, count, number, text, choice, texts or variable: `env:NAME`."""
    value: Any = None
    """The value as it is written; None if it is not written, or in a way that no field shows."""
    default: Any = None
    """What holds where nothing is written; None is nothing, or what the help says."""
    least: int | None = None
    words: tuple[str, ...] = ()
    """The words of a choice."""
    line: int = 0
    """The line of the setting; 0 if it is not written."""
    stuck: bool = False
    """Whether it is written in a way that only the text shows."""
    variables: tuple[tuple[str, bool], ...] = ()
    """The variables that the value is taken from, and whether they are set; never what they hold."""


class FieldGroup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One table of the file."""

    path: tuple[str, ...]
    help: str
    line: int = 0
    fields: tuple[SettingField, ...] = ()
    inside: tuple[tuple[str, int], ...] = ()
    """What it holds beside them: names, and the lines where they can be changed as text."""


class SettingsMistake(Struct, frozen=True, kw_only=True, omit_defaults=True):
    words: str
    line: int = 0
    path: tuple[str, ...] = ()
    """The field that it is about, as far as it is about one."""


class SettingsForm(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that may become the file's, field by field. Nothing is written by looking at it."""

    text: str
    groups: tuple[FieldGroup, ...] = ()
    """The tables of the file; None while the text is not TOML."""
    problems: tuple[SettingsMistake, ...] = ()
    changes: tuple[str, ...] = ()
    """Against the file as it is now: the lines of a unified diff."""
