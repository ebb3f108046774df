"""What a server lists, read page by page within bounds; and which of its tools can be offered.

A listing comes from a stranger. A tool that cannot be used, or not be told from
another, is held back with the reason, and the rest works.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import starmap
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from handrail.core.errors import McpError, UsageError
from handrail.mcp.values import McpBounds, Pins, RemoteTool
from handrail.tools.definition import ToolDefinition
from handrail.tools.lookalikes import lookalike_keys
from handrail.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client

T = TypeVar("T")
MOST_WORDS = 32_768
"""Characters of a description, or of what a server says about itself; more is no description."""


@dataclass(frozen=True, slots=True)
class MalformedTool:
    """What a server lists as a tool and is none."""

    name: str
    why: str


class ListingPage(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


P = TypeVar("P", bound=ListingPage)


async def read_all_pages(
    what: str,
    server: str,
    bounds: McpBounds,
    fetch: Callable[[str | None], Awaitable[P]],
    items: Callable[[P], Iterable[T]],
) -> list[T]:
    """All pages of a listing.

    Raises:
        McpError: It has no end, or more of it than a server may have.
    """
    found: list[T] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(bounds.pages):
        page = await fetch(cursor)
        found.extend(items(page))
        if len(found) > bounds.tools:
            raise McpError(server, f"it lists more than {bounds.tools} {what}; raise the bound, or use another server")
        cursor = page.next_cursor
        if cursor is None:
            return found
        if cursor in cursors:
            raise McpError(server, f"its list of {what} has no end: a page leads back to one before it")
        cursors.add(cursor)
    raise McpError(server, f"its list of {what} has more than {bounds.pages} pages")


async def read_tools(client: Client, server: str, bounds: McpBounds) -> list[RemoteTool | MalformedTool]:
    """Every tool that a server lists, as it lists them."""
    if client.server_capabilities.tools is None:
        return []
    from handrail.mcp.client.wire import missing_tools  # it needs the official package

    return await read_all_pages(
        "tools",
        server,
        bounds,
        lambda cursor: client.list_tools(cursor=cursor, cache_mode="bypass"),
        lambda page: (*map(_remote, page.tools), *starmap(MalformedTool, missing_tools(page))),
    )


def _remote(tool: mcp_types.Tool) -> RemoteTool:
    hints = tool.annotations
    return RemoteTool(
        name=tool.name,
        title=tool.title or (hints.title if hints else None) or "",
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
        open_world=hints.open_world_hint if hints else None,
        listed=tool.model_dump(by_alias=True, mode="json", exclude_unset=True),
    )


# ── what can be offered ──────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class McpToolTerms:
    """The user's settings for the tools of a server."""

    prefix: str = ""
    only: tuple[str, ...] | None = None
    """Names or patterns, as the server gives them; None is all."""
    hints: bool = True
    """Whether the server is believed what it says about its tools."""
    pins: Pins | None = None
    """What a person has taken of them; None takes whatever there is."""
    effect_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The arguments that say which effect a call is, by the server's name of the tool."""
    repeat_windows: Mapping[str, float] = field(default_factory=dict)
    """The `repeat_window` of tools, by the server's name."""
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What its user declares about the results and arguments of tools, by the server's name."""

    def wants(self, name: str) -> bool:
        return self.only is None or any(fnmatchcase(name, pattern) for pattern in self.only)


@dataclass(frozen=True, slots=True)
class McpToolCatalogue:
    """The tools of a server as it listed them last: those that may be called, and why others may not."""

    remote: Mapping[str, RemoteTool]
    """The tools by the server's names."""
    digests: Mapping[str, str]
    tools: Mapping[str, Tool]
    """The tools by the server's names."""
    held: Mapping[str, str]

    def same(self, other: McpToolCatalogue) -> bool:
        return self.remote == other.remote and self.held == other.held

    def refusal(self, name: str, digest: str) -> str | None:
        """Why a tool that was offered as of `digest` may not be called now, if there is a reason."""
        if name not in self.digests:
            return self.held.get(name) or "its server does not have it any more"
        if self.digests[name] != digest:
            return "its server has changed its definition since it was approved; approve the tools of the server again"
        return None


EMPTY = McpToolCatalogue({}, {}, {}, {})


def build_catalogue(
    listed: Iterable[RemoteTool | MalformedTool],
    terms: McpToolTerms,
    pinned: Callable[[Mapping[str, RemoteTool]], Mapping[str, str]],
    make: Callable[[RemoteTool, str, ToolDefinition], Tool],
    before: McpToolCatalogue = EMPTY,
) -> McpToolCatalogue:
    """What can be offered of a listing. A tool that is as it was `before` stays the one it was."""
    wanted, held = _sift(listed, terms)
    held |= {name: why for name, why in pinned(wanted).items() if name in wanted}
    remote: dict[str, RemoteTool] = {}
    digests: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    for name, each in wanted.items():
        if name in held:
            continue
        digest = each.digest
        try:
            kept = before.tools.get(name) if before.digests.get(name) == digest else None
            tools[name] = kept or make(each, digest, definition_of(each, terms))
        except UsageError as error:
            held[name] = str(error)
            continue
        remote[name], digests[name] = each, digest
    return McpToolCatalogue(remote, digests, tools, held)


def _sift(
    listed: Iterable[RemoteTool | MalformedTool], terms: McpToolTerms
) -> tuple[dict[str, RemoteTool], dict[str, str]]:
    """The wanted tools that can be told apart; and the others, each with the reason."""
    wanted = [tool for tool in listed if terms.wants(tool.name)]
    count = Counter(tool.name for tool in wanted)
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for name in count:
        for look in lookalike_keys(name):
            alike[look].add(name)
    held = {tool.name: tool.why for tool in wanted if isinstance(tool, MalformedTool)}
    for name, times in count.items():
        others = sorted(set().union(*(alike[look] for look in lookalike_keys(name))) - {name})
        if times > 1:
            held[name] = f"the server lists {times} tools of this name; which of them would be called is not known"
        elif others:
            held[name] = f"people cannot tell its name from {', '.join(map(repr, others))} of the same server"
    for pattern in terms.only or ():
        if not any(fnmatchcase(name, pattern) for name in count):
            held[pattern] = "it is asked for, and the server does not list it"
    for name in (*terms.effect_keys, *terms.repeat_windows, *terms.labels):
        if name not in count:
            held[name] = "its effects are described, and the server does not list it"
    return {tool.name: tool for tool in wanted if isinstance(tool, RemoteTool) and tool.name not in held}, held


def definition_of(tool: RemoteTool, terms: McpToolTerms) -> ToolDefinition:
    """A tool as models are told of it. What a server does not say counts as the worst.

    Raises:
        UsageError: It cannot be used as it is described; the words say why.
    """
    description = tool.description or tool.title
    if len(description) > MOST_WORDS:
        raise UsageError(f"its description has {len(description)} characters, and at most {MOST_WORDS} are taken")
    believed = terms.hints
    labels = {"untrusted": not (believed and tool.open_world is False), **terms.labels.get(tool.name, {})}
    return ToolDefinition(
        name=terms.prefix + tool.name,
        description=description,
        input_schema=_object(tool.input_schema),
        output_schema=tool.output_schema,
        side_effects=not (believed and tool.read_only is True),
        idempotent=believed and tool.idempotent is True,
        tags=("mcp",),
        **labels,
    )


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema that says that it is one, for the models that want it said."""
    return schema if "type" in schema else {"type": "object", **schema}
