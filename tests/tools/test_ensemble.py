"""A group of tools: its defaults, its switches, and a life that begins and ends once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handrail.core.errors import DuplicateTool, UsageError
from handrail.tools.definition import ToolDefinition
from handrail.tools.ensemble import Ensemble, ToolDefaults
from handrail.tools.registry import registered
from handrail.tools.tool import Retry, Tool, tool

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def named(name: str, **treatment: Any) -> Tool:
    return Tool(ToolDefinition(name), lambda: None, **treatment)


class Hooks:
    """Notes what an ensemble does with its life."""

    def __init__(self, *, failing: str | None = None, gate: asyncio.Event | None = None) -> None:
        self.seen: list[str] = []
        self._failing = failing
        self._gate = gate

    async def prepare(self) -> None:
        await self._note("prepare")

    async def close(self) -> None:
        await self._note("close")

    async def _note(self, what: str) -> None:
        self.seen.append(what)
        if self._gate is not None:
            await self._gate.wait()
        if self._failing == what:
            raise ConnectionError(what)

    def ensemble(self) -> Ensemble:
        return Ensemble("io", [named("read")], on_prepare=self.prepare, on_close=self.close)


@pytest.mark.requirement("converser.ensemble")
def test_defaults_fill_in_where_a_tool_says_nothing() -> None:
    defaults = ToolDefaults(timeout=5.0, max_retries=2, deduplicator="exact", max_output=500)
    ensemble = Ensemble("io", [named("silent")], defaults=defaults)
    own = named("own", retry=Retry(7), deduplicator="window", max_output=300).changed(timeout=1.0)
    ensemble.register(own)

    silent, spoken = ensemble.tools
    assert silent.definition.timeout == 5.0
    assert (silent.retry, silent.deduplicator, silent.max_output) == (Retry(attempts=3), "exact", 500)
    assert spoken.definition.timeout == 1.0
    assert (spoken.retry, spoken.deduplicator, spoken.max_output) == (Retry(7), "window", 300)


def test_no_retries_means_one_attempt_whatever_the_policy_says() -> None:
    ensemble = Ensemble("io", [named("read")], defaults=ToolDefaults(max_retries=0))

    assert [made.retry for made in ensemble.tools] == [Retry(attempts=1)]


@pytest.mark.requirement("converser.ensemble")
def test_a_tool_of_an_ensemble_has_a_scoped_name() -> None:
    ensemble = Ensemble("io")

    added = ensemble.add_invoker(named("read"))

    assert (added.name, added.scoped_name, added.ensemble) == ("read", "io:read", "io")
    assert registered(ensemble).find("io:read") is added


def test_functions_and_tools_are_taken_alike_and_the_tool_itself_stays_as_it_was() -> None:
    @tool
    def read(path: str) -> str:
        """Read a file."""
        return path

    def write(path: str) -> str:
        """Write a file."""
        return path

    ensemble = Ensemble("io", [read, write])

    assert [made.scoped_name for made in ensemble.tools] == ["io:read", "io:write"]
    assert read.ensemble is None


def test_a_second_tool_of_one_name_is_refused() -> None:
    with pytest.raises(DuplicateTool) as caught:
        Ensemble("io", [named("read"), named("read")])

    assert caught.value.name == "io:read"


@pytest.mark.parametrize("name", ["", "a:b", ":"])
def test_a_name_that_would_confuse_scoped_names_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Ensemble(name)


@pytest.mark.requirement("converser.ensemble")
def test_the_whole_group_can_be_disabled_and_enabled() -> None:
    ensemble = Ensemble("io", [named("read"), named("write")])

    ensemble.disable()
    assert [made.name for made in ensemble.tools] == []
    assert set(ensemble.all_tools) == {"read", "write"}
    ensemble.enable()
    assert [made.name for made in ensemble.tools] == ["read", "write"]


@pytest.mark.requirement("converser.ensemble")
def test_one_tool_can_be_disabled_and_enabled_and_stays_so_while_the_group_changes() -> None:
    ensemble = Ensemble("io", [named("read"), named("write")], enabled=False)

    ensemble.disable("write")
    ensemble.enable()
    assert [made.name for made in ensemble.tools] == ["read"]
    ensemble.enable("write")
    ensemble.enable("write")
    assert [made.name for made in ensemble.tools] == ["read", "write"]


def test_a_tool_that_is_not_there_cannot_be_switched() -> None:
    ensemble = Ensemble("io", [named("read")])

    for switch in (ensemble.enable, ensemble.disable):
        with pytest.raises(UsageError, match="it has read"):
            switch("reed")


@pytest.mark.requirement("converser.ensemble")
async def test_an_ensemble_is_prepared_once_and_closed_once() -> None:
    hooks = Hooks()
    ensemble = hooks.ensemble()
    states = [ensemble.state]

    for step in (ensemble.prepare, ensemble.prepare, ensemble.close, ensemble.close):
        await step()
        states.append(ensemble.state)

    assert hooks.seen == ["prepare", "close"]
    assert states == ["new", "prepared", "prepared", "closed", "closed"]
    assert ensemble.tools == ()


async def test_two_callers_at_once_prepare_it_once() -> None:
    gate = asyncio.Event()
    hooks = Hooks(gate=gate)
    ensemble = hooks.ensemble()

    async with asyncio.TaskGroup() as group:
        callers = [group.create_task(ensemble.prepare()) for _ in range(3)]
        closer = group.create_task(ensemble.close())
        gate.set()

    assert all(caller.done() for caller in callers)
    assert closer.done()
    assert hooks.seen == ["prepare", "close"]
    assert ensemble.state == "closed"


async def test_what_was_never_prepared_is_closed_without_its_hook() -> None:
    hooks = Hooks()
    ensemble = hooks.ensemble()

    await ensemble.close()

    assert (hooks.seen, ensemble.state) == ([], "closed")


async def test_a_closed_ensemble_may_be_prepared_again() -> None:
    hooks = Hooks()
    ensemble = hooks.ensemble()

    for _ in range(2):
        async with ensemble:
            assert len(ensemble.tools) == 1

    assert hooks.seen == ["prepare", "close"] * 2


async def test_a_preparation_that_failed_may_be_tried_again() -> None:
    hooks = Hooks(failing="prepare")
    ensemble = hooks.ensemble()

    for _ in range(2):
        with pytest.raises(ConnectionError):
            await ensemble.prepare()

    assert (hooks.seen, ensemble.state) == (["prepare", "prepare"], "new")
    await ensemble.close()
    assert hooks.seen == ["prepare", "prepare"]


@pytest.mark.requirement("converser.ensemble")
async def test_a_closing_hook_that_fails_is_not_run_again() -> None:
    hooks = Hooks(failing="close")
    ensemble = hooks.ensemble()
    await ensemble.prepare()

    with pytest.raises(ConnectionError):
        await ensemble.close()
    await ensemble.close()

    assert (hooks.seen, ensemble.state) == (["prepare", "close"], "closed")


async def test_it_is_closed_when_its_block_is_left_by_an_error() -> None:
    hooks = Hooks()

    with pytest.raises(LookupError):
        async with hooks.ensemble():
            raise LookupError

    assert hooks.seen == ["prepare", "close"]


DESCRIPTORS: dict[str, dict[str, Any]] = {
    "read_file": {"description": "Read a file.", "arguments": SCHEMA, "command": ["cat", "{path}"]},
    "list_files": {"command": ["ls"], "timeout": 1.0},
    "remove_file": {"invoker": {"enabled": False}, "arguments": SCHEMA, "command": ["rm", "{path}"]},
    "touch_file": {"enabled": False, "arguments": SCHEMA, "command": ["touch", "{path}"]},
}


@pytest.mark.requirement("converser.ensemble")
async def test_tools_are_made_of_descriptors_with_defaults_and_switches() -> None:
    hooks = Hooks()
    ensemble = Ensemble("io", on_prepare=hooks.prepare)

    await ensemble.prepare_invokers(DESCRIPTORS, {"timeout": 9.0, "max_retries": 1})

    assert ensemble.state == "prepared"
    assert hooks.seen == ["prepare"]
    assert [made.scoped_name for made in ensemble.tools] == ["io:read_file", "io:list_files"]
    assert set(ensemble.all_tools) == set(DESCRIPTORS)
    assert ensemble.all_tools["read_file"].definition.timeout == 9.0
    assert ensemble.all_tools["list_files"].definition.timeout == 1.0
    assert ensemble.all_tools["list_files"].retry == Retry(attempts=2)


async def test_one_wrong_descriptor_leaves_the_group_as_it_was() -> None:
    ensemble = Ensemble("io")

    with pytest.raises(UsageError, match="timout"):
        await ensemble.prepare_invokers({**DESCRIPTORS, "bad": {"command": ["ls"], "timout": 1}})

    assert (dict(ensemble.all_tools), ensemble.state) == ({}, "new")


def test_an_ensemble_shows_its_name_and_its_state() -> None:
    assert repr(Ensemble("io", [named("read")])) == "Ensemble('io', 1 tools, new)"
