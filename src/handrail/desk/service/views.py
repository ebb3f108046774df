"""What the page calls for its views: tools, proofs, the network; and settings, which are a right of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from handrail.app.network_node import NetworkNode
from handrail.desk.desk import Desk
from handrail.desk.service.capabilities import Offered, answer_capability, caller_answer_capability, stream_capability
from handrail.desk.trials import ToolTrial
from handrail.desk.views.desk_views import DeskViews
from handrail.desk.views.network import NetworkView
from handrail.desk.views.proofs import ENTRIES, RUNS
from handrail.node.bus.request import Caller, RouteRequest
from handrail.tools.files.toml_table import LARGEST

_ID = {"type": "string", "minLength": 1, "maxLength": 500}
_NAME = {"type": "string", "minLength": 1, "maxLength": 300}
_WORDS = {"type": "string", "maxLength": 500}
_PLACE = {"type": "integer", "minimum": 0, "maximum": 2**53}
_TEXT = {"type": "string", "maxLength": LARGEST}
_PATH = {"type": "array", "items": _NAME, "maxItems": 8}
_ONE = {"type": "string", "maxLength": 10_000}
_VALUE = {**_ONE, "type": ["boolean", "number", "string", "array", "null"], "items": _ONE, "maxItems": 1_000}
_RULE = {"type": "string", "minLength": 1, "maxLength": 4_000}


def _most(count: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": count}


class ViewCapabilities:
    def __init__(self, desk: Desk, node: NetworkNode) -> None:
        self._at_machine = node.at_machine
        self._views = DeskViews(desk.app, writable=desk.settings_writable)
        self._trials = desk.trials
        self._network = NetworkView(node.bus, lambda: node.config)

    def capabilities(self) -> Iterator[Offered]:
        yield from self._of_tools()
        yield from self._of_proofs()
        yield stream_capability("desk.network", "Who is there, whenever it changes.", self._watch, frames=("network",))
        yield from self._of_settings()

    def _of_tools(self) -> Iterator[Offered]:
        tools = self._views.tools

        async def all(said: dict[str, Any]) -> Any:
            return {"tools": await tools.rows()}

        async def one(said: dict[str, Any]) -> Any:
            return await tools.page(said["name"])

        yield answer_capability("desk.tools", "Every tool, with how it did.", all)
        yield answer_capability("desk.tool", "Everything about one tool.", one, {"name": _NAME}, ["name"])
        yield from self._of_trials()

    def _of_trials(self) -> Iterator[Offered]:
        trials, frames = self._trials, ("call", "question", "answered")

        async def begin(request: RouteRequest) -> None:
            await _follow(request, trials.begin(request.input["name"], request.input["arguments"]))

        async def follow(request: RouteRequest) -> None:
            await _follow(request, trials.find(request.input["run"]))

        async def of(said: dict[str, Any]) -> Any:
            return {"trials": trials.of(said["name"])}

        async def stop(said: dict[str, Any]) -> Any:
            await trials.find(said["run"]).stop()

        given = {"name": _NAME, "arguments": {"type": ["object", "string"]}}
        says = "Run one tool by hand. It goes on when nobody listens."
        yield stream_capability("desk.try", says, begin, given, ["name", "arguments"], frames=frames, changes=True)
        yield stream_capability("desk.trial", "A tool that is tried.", follow, {"run": _ID}, ["run"], frames=frames)
        yield answer_capability("desk.trials", "What was begun of one tool.", of, {"name": _NAME}, ["name"])
        yield answer_capability("desk.untry", "End a trial.", stop, {"run": _ID}, ["run"], changes=True)

    def _of_proofs(self) -> Iterator[Offered]:
        proofs = self._views.proofs

        async def runs(said: dict[str, Any]) -> Any:
            return await proofs.runs(**said)

        async def run(said: dict[str, Any]) -> Any:
            return await proofs.run(**said)

        async def body(said: dict[str, Any]) -> Any:
            return await proofs.body(**said)

        async def bundle(said: dict[str, Any]) -> Any:
            return await proofs.bundle(**said)

        async def receipt(said: dict[str, Any]) -> Any:
            return await proofs.receipt(**said)

        paging = {"before": _ID, "limit": _most(RUNS), "search": _WORDS}
        yield answer_capability("desk.runs", "The runs of the record, the newest first.", runs, paging)
        part = {"run": _ID, "first": _PLACE, "limit": _most(ENTRIES), "size": _PLACE}
        yield answer_capability("desk.run", "Entries of a run, with proofs.", run, part, ["run"])
        yield answer_capability(
            "desk.body", "A body too long for a list.", body, {"run": _ID, "seq": _PLACE}, ["run", "seq"]
        )
        yield answer_capability(
            "desk.bundle", "The proof bundle of a run.", bundle, {"run": _ID}, ["run"], seconds=300.0
        )
        both = {"run": _ID, "call": _ID}
        yield answer_capability(
            "desk.receipt", "The receipt of one call.", receipt, both, ["run", "call"], seconds=300.0
        )

    def _of_settings(self) -> Iterator[Offered]:
        settings = self._views.settings

        async def now(said: dict[str, Any]) -> Any:
            return await settings.now()

        async def check(said: dict[str, Any]) -> Any:
            return {"problems": await settings.check(**said)}

        async def form(said: dict[str, Any]) -> Any:
            return await settings.form(said["text"], tuple(said.get("path", ())), said.get("value"))

        async def save(said: dict[str, Any], caller: Caller) -> Any:
            return await settings.save(**said, at_machine=self._at_machine(caller))

        async def forget(said: dict[str, Any], caller: Caller) -> Any:
            return await settings.forget(**said, at_machine=self._at_machine(caller))

        yield answer_capability("settings.show", "The configuration.", now)
        yield answer_capability("settings.check", "What would be wrong with it.", check, {"text": _TEXT}, ["text"])
        change = {"path": _PATH, "value": _VALUE}
        yield answer_capability(
            "settings.form", "It as fields, after one change.", form, {"text": _TEXT, **change}, ["text"]
        )
        fields = {"text": _TEXT, "revision": _ID}
        yield caller_answer_capability("settings.save", "Change it.", save, fields, ["text", "revision"], changes=True)
        says = "Take back a standing rule."
        yield caller_answer_capability("settings.forget", says, forget, {"rule": _RULE}, ["rule"], changes=True)

    async def _watch(self, request: RouteRequest) -> None:
        async with aclosing(self._network.changes()) as found:
            async for network in found:
                await request.send("network", msgspec.to_builtins(network))


async def _follow(request: RouteRequest, trial: ToolTrial) -> None:
    async with aclosing(trial.follow()) as frames:
        async for event, data in frames:
            await request.send(event, msgspec.to_builtins(data))
