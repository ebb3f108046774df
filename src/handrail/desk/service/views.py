"""What the page calls for its views: tools, proofs, the network; and settings, which are a right of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from handrail.app.network_node import NetworkNode
from handrail.desk.desk import Desk
from handrail.desk.service.capabilities import CapabilityTable, Offered
from handrail.desk.trials import ToolTrial
from handrail.desk.views.desk_views import DeskViews
from handrail.desk.views.network import NetworkView
from handrail.desk.views.proofs import PAGE
from handrail.desk.views.values import SettingsForm, SettingsPage
from handrail.node.bus.request import RouteRequest
from handrail.tools.files.toml_table import LARGEST

_ID = {"type": "string", "minLength": 1, "maxLength": 500}
_NAME = {"type": "string", "minLength": 1, "maxLength": 300}
_PLACE = {"type": "integer", "minimum": 0, "maximum": 2**53}
_ONE = {"type": "string", "maxLength": 10_000}
_TABLE = CapabilityTable(
    {
        "arguments": {"type": ["object", "string"]},
        "before": _ID,
        "call": _ID,
        "first": _PLACE,
        "limit": {"type": "integer", "minimum": 1, "maximum": PAGE},
        "name": _NAME,
        "path": {"type": "array", "items": _NAME, "maxItems": 8},
        "revision": _ID,
        "rule": {"type": "string", "minLength": 1, "maxLength": 4_000},
        "run": _ID,
        "search": {"type": "string", "maxLength": 500},
        "seq": _PLACE,
        "size": _PLACE,
        "text": {"type": "string", "maxLength": LARGEST},
        "value": {**_ONE, "type": ["boolean", "number", "string", "array", "null"], "items": _ONE, "maxItems": 1_000},
    }
)
_TRIED = ("call", "question", "answered")
"""The frames of a trial."""


class ViewCapabilities:
    def __init__(self, desk: Desk, node: NetworkNode) -> None:
        self._at_machine = node.at_machine
        self._views = DeskViews(desk.app, writable=desk.settings_writable)
        self._trials = desk.trials
        self._network = NetworkView(node.bus, lambda: node.config, calls=desk.calls)

    def capabilities(self) -> Iterator[Offered]:
        tools, trials, proofs, settings = self._views.tools, self._trials, self._views.proofs, self._views.settings
        answer, stream = _TABLE.answer, _TABLE.stream
        yield answer("desk.tools", "All tools, with their call statistics.", tools.rows, key="tools")
        yield answer("desk.tool", "Everything about one tool.", tools.page, "name")
        says = "Try a tool by hand. It keeps running if the caller disconnects."
        yield stream("desk.try", says, self._try, "name arguments", frames=_TRIED, changes=True)
        yield stream("desk.trial", "Follow a trial of a tool.", self._follow_trial, "run", frames=_TRIED)
        yield answer("desk.trials", "The trials of one tool.", trials.of, "name", "trials")
        yield answer("desk.untry", "Stop a trial of a tool.", lambda run: trials.find(run).stop(), "run", changes=True)
        yield answer("desk.runs", "Recorded runs, newest first.", proofs.runs, "before? limit? search?")
        yield answer("desk.run", "Entries of a run, with their proofs.", proofs.run, "run first? limit? size?")
        yield answer("desk.trace", "The turns and calls of a run, with times and tokens.", proofs.trace, "run")
        yield answer("desk.usage", "Usage and cost for each day and model.", proofs.usage, key="days")
        yield answer("desk.body", "The full body of one entry.", proofs.body, "run seq")
        yield answer("desk.bundle", "The proof bundle of a run.", proofs.bundle, "run", seconds=300.0)
        yield answer("desk.receipt", "The receipt of one call.", proofs.receipt, "run call", seconds=300.0)
        yield stream("desk.network", "The nodes of the network, at every change.", self._watch, frames=("network",))
        yield answer("settings.show", "Show the configuration.", settings.now)
        yield answer("settings.check", "Check a configuration and list its errors.", settings.check, "text", "problems")
        yield answer("settings.form", "A configuration as a form, after one change.", self._form, "text path? value?")
        save, forget = self._by_caller(settings.save), self._by_caller(settings.forget)
        yield answer("settings.save", "Save a configuration.", save, "text revision", with_caller=True, changes=True)
        yield answer("settings.forget", "Revoke a standing rule.", forget, "rule", with_caller=True, changes=True)

    def _by_caller(self, change: Callable[..., Awaitable[SettingsPage]]) -> Callable[..., Awaitable[SettingsPage]]:
        return lambda *, caller, **given: change(**given, at_machine=self._at_machine(caller))

    async def _form(self, text: str, path: Sequence[str] = (), value: Any = None) -> SettingsForm:
        return await self._views.settings.form(text, tuple(path), value)

    async def _try(self, request: RouteRequest) -> None:
        await _follow(request, self._trials.begin(**request.input))

    async def _follow_trial(self, request: RouteRequest) -> None:
        await _follow(request, self._trials.find(request.input["run"]))

    async def _watch(self, request: RouteRequest) -> None:
        async with aclosing(self._network.changes()) as found:
            async for network in found:
                await request.send("network", msgspec.to_builtins(network))


async def _follow(request: RouteRequest, trial: ToolTrial) -> None:
    async with aclosing(trial.follow()) as frames:
        async for event, data in frames:
            await request.send(event, msgspec.to_builtins(data))
