"""The tools as people look at them: where each comes from, how its calls are treated, how it did so far."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from handrail.app.app import App
from handrail.core.errors import UnknownTool, UsageError
from handrail.desk.views.journal_index import JournalIndex, ToolUsage
from handrail.desk.views.values import ToolPage, ToolRow
from handrail.execute.spill import READ_OUTPUT
from handrail.journal.telemetry import Telemetry
from handrail.tools.ensemble import Ensemble
from handrail.tools.finder import description_line
from handrail.tools.handlers import without_partials
from handrail.tools.tool import Tool

_WORDS = 20_000
"""Characters of a description."""
_EXAMPLES = 10
_RULES = 100
_NEVER = Telemetry().tool("")


class ToolViews:
    def __init__(self, app: App, record: JournalIndex) -> None:
        self._app = app
        self._record = record

    async def rows(self) -> tuple[ToolRow, ...]:
        """Every tool of runs that begin now, by name."""
        usage = await asyncio.to_thread(self._record.usage)
        known = ensemble_sources(self._app)
        tools = sorted(tools_to_choose(self._app), key=lambda tool: tool.scoped_name)
        return tuple(_row(tool, known, usage) for tool in tools)

    async def page(self, name: str) -> ToolPage:
        """Everything that the page shows of one tool.

        Raises:
            UsageError: There is no such tool.
        """
        tool = self.find(name)
        usage, rules = await asyncio.to_thread(lambda: (self._record.usage(), self._rules(tool)))
        definition = tool.definition
        examples = definition.input_schema.get("examples")
        return ToolPage(
            row=_row(tool, ensemble_sources(self._app), usage),
            description=definition.description[:_WORDS],
            input_schema=definition.input_schema,
            output_schema=definition.output_schema,
            examples=tuple(examples[:_EXAMPLES]) if isinstance(examples, list) else (),
            definition=tool.digest,
            tags=definition.tags,
            limits=_limits(tool, self._app.config.policy.timeout),
            rules=rules,
            outcomes=usage.outcomes.get(tool.scoped_name, {}),
            secrets=tuple(sorted(tool.secrets)),
        )

    def find(self, name: str) -> Tool:
        """The tool of this name.

        Raises:
            UsageError: There is none.
        """
        try:
            return self._app.tools.find(name)
        except UnknownTool as error:
            raise UsageError(error.message) from error

    def _rules(self, tool: Tool) -> tuple[str, ...]:
        digest = tool.digest
        names = (tool.scoped_name, tool.name)
        fitting = (
            str(rule)
            for rule in (*self._app.rules, *self._app.standing.now())
            if any(fnmatchcase(name, rule.tool) for name in names) and digest.startswith(rule.definition)
        )
        return tuple(fitting)[:_RULES]


def tools_to_choose(app: App) -> tuple[Tool, ...]:
    """The tools that a person chooses from: all but the one with which models read on in long outputs."""
    return tuple(tool for tool in app.tools if tool.name != READ_OUTPUT)


def ensemble_sources(app: App) -> dict[str, str]:
    """Where each ensemble comes from, in words: a file, an MCP server, handrail itself."""
    found = {name: f"MCP server {name}" for name in app.servers}
    home = app.config.file.parent if app.config.file is not None else Path.cwd()
    for group in app.groups:
        if isinstance(group.item, Ensemble):
            found[group.item.name] = _source_in_words(group.made_of, home)
    return found


def _source_in_words(made_of: Any, home: Path) -> str:
    match made_of:
        case (Path() as path, _):
            return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)
        case (str(), _):
            return "handrail"
    return "named at the start"


def _source(tool: Tool, known: dict[str, str]) -> str:
    if tool.ensemble:
        return known.get(tool.ensemble, tool.source)
    if tool.definition.binding is not None:
        return f"bus {tool.definition.binding.scope}"
    handler = without_partials(tool.handler)
    module = getattr(handler, "__module__", None) or type(handler).__module__
    return "handrail" if module.startswith("handrail.") else tool.source


def _row(tool: Tool, known: dict[str, str], usage: ToolUsage) -> ToolRow:
    did = usage.tools.get(tool.scoped_name, _NEVER)
    return ToolRow(
        name=tool.scoped_name,
        summary=description_line(tool),
        ensemble=tool.ensemble or "",
        source=_source(tool, known),
        effects=tool.effects,
        side_effects=not tool.reads,
        deprecated="deprecated" in tool.definition.tags or tool.definition.input_schema.get("deprecated") is True,
        offered=did.offered,
        picked=did.picked,
        failed=sum(did.failed.values()),
        p50_us=did.p50_us,
        p95_us=did.p95_us,
        recent=usage.recent.get(tool.scoped_name, ()),
    )


def _limits(tool: Tool, timeout: float) -> dict[str, Any]:
    definition = tool.definition
    stated: dict[str, Any] = {
        "timeout": definition.timeout or timeout,
        "retries": None if tool.retry is None else tool.retry.attempts - 1,
        "isolation": tool.isolation,
        "concurrency": tool.concurrency,
        "idempotent": definition.idempotent or None,
        "cacheable": (tool.repeatable and tool.deduplicator is not None) or None,
        "max_output": tool.max_output,
        "untrusted": definition.untrusted or None,
        "models": None if definition.models is None else list(definition.models),
        "capability": None if definition.binding is None else definition.binding.scope,
    }
    return {name: value for name, value in stated.items() if value is not None}
