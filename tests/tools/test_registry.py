"""The registry refuses what is wrong at once; the frozen set is fixed and has a digest."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall
from handrail.core.errors import DuplicateTool, InvalidDefinition, InvalidSchema, RegistryFrozen, UnknownTool
from handrail.execute.executor import Executor
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, ToolRegistry, registered
from handrail.tools.tool import Tool, tool

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def named(name: str, **facts: Any) -> Tool:
    return Tool(ToolDefinition(name, **facts), lambda: None)


def read_file(path: str) -> str:
    """Read a file."""
    return path


async def handler(invocation: Any) -> Any:
    return invocation.input


@pytest.mark.requirement("nrv.registry")
@pytest.mark.parametrize(
    "register",
    [
        lambda registry: registry.register(read_file),
        lambda registry: registry.register(tool(read_file)),
        lambda registry: registry.register(ToolDefinition.from_function(read_file), handler),
        lambda registry: registry.register(ToolDefinition.from_function(read_file).to_dict(), handler),
    ],
)
def test_a_tool_is_registered_from_whatever_describes_it(register: Callable[[ToolRegistry], ToolRegistry]) -> None:
    tools = register(ToolRegistry()).freeze()

    assert tools.definitions == (ToolDefinition.from_function(read_file),)
    assert "read_file" in tools
    assert len(tools) == 1


def test_registrations_can_be_chained_and_keep_their_order() -> None:
    tools = ToolRegistry().register(named("b")).register(named("a")).register(named("c")).freeze()

    assert [tool.name for tool in tools] == ["b", "a", "c"]
    assert repr(tools) == "RegisteredTools(b, a, c)"


@pytest.mark.requirement("nrv.registry")
def test_a_duplicate_name_is_refused() -> None:
    registry = ToolRegistry().register(named("read"))

    with pytest.raises(DuplicateTool) as caught:
        registry.register(named("read", description="another"))

    assert (caught.value.name, caught.value.taken) == ("read", "read")
    assert registry.freeze().definitions == (ToolDefinition("read"),)


@pytest.mark.parametrize("other", ["read_file", "Read-File", "read.file", "READ_FILE"])
def test_a_name_that_looks_the_same_is_refused(other: str) -> None:
    registry = ToolRegistry().register(named("read-file"))

    with pytest.raises(DuplicateTool) as caught:
        registry.register(named(other))

    assert (caught.value.name, caught.value.taken) == (other, "read-file")


def test_a_replacement_must_be_meant_and_have_the_very_name() -> None:
    registry = ToolRegistry().register(named("read")).register(named("write"))

    registry.register(named("read", description="new"), replace=True)
    with pytest.raises(DuplicateTool):
        registry.register(named("Read"), replace=True)

    tools = registry.freeze()
    assert tools.find("read").definition.description == "new"
    assert [tool.name for tool in tools] == ["read", "write"]


@pytest.mark.requirement("nrv.registry")
def test_a_frozen_registry_takes_nothing_more() -> None:
    registry = ToolRegistry().register(named("read"))
    tools = registry.freeze()

    for replace in (False, True):
        with pytest.raises(RegistryFrozen) as caught:
            registry.register(named("read"), replace=replace)
        assert caught.value.name == "read"
    with pytest.raises(RegistryFrozen):
        registry.register(Ensemble("empty"))
    assert len(tools) == 1


@pytest.mark.requirement("nrv.registry")
@pytest.mark.parametrize("attribute", ["digest", "anything"])
def test_the_frozen_set_cannot_be_changed(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(registered(named("read")), attribute, "other")


@pytest.mark.requirement("nrv.registry")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$schema": "http://example.org/unknown", "type": "object"},
    ],
)
@pytest.mark.parametrize("key", ["input_schema", "returns"])
def test_an_invalid_schema_is_refused_at_once(schema: dict[str, Any], key: str) -> None:
    registry = ToolRegistry()

    with pytest.raises(InvalidSchema):
        registry.register({"name": "a", key: schema}, handler)

    assert len(registry.freeze()) == 0


@pytest.mark.requirement("nrv.descriptor")
@pytest.mark.parametrize("name", ["read_file", "readFile", "Read", "a--b", "a.b", "-"])
def test_the_kebab_case_rule_can_be_enforced(name: str) -> None:
    descriptor = {"name": name, "description": "", "input_schema": SCHEMA}

    with pytest.raises(InvalidDefinition):
        ToolRegistry(names="kebab").register(descriptor, handler)


@pytest.mark.requirement("nrv.descriptor")
def test_kebab_case_passes_the_kebab_case_rule() -> None:
    tools = ToolRegistry(names="kebab").register({"name": "read-file-2", "input_schema": SCHEMA}, handler).freeze()

    assert "read-file-2" in tools


def test_a_definition_without_a_handler_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="no handler"):
        ToolRegistry().register({"name": "a"})


@pytest.mark.parametrize("what", [read_file, tool(read_file), Ensemble("io", [read_file])])
def test_a_second_handler_is_refused(what: Any) -> None:
    with pytest.raises(InvalidDefinition, match="already"):
        ToolRegistry().register(what, handler)


@pytest.mark.requirement("nrv.registry")
def test_nothing_is_discovered_by_import() -> None:
    code = """
import gc
from handrail.tools.tool import Tool, tool
from handrail.tools.registry import RegisteredTools, ToolRegistry

@tool
def read(path: str) -> str:
    return path

assert not [item for item in gc.get_objects() if isinstance(item, (ToolRegistry, RegisteredTools))]
assert len(ToolRegistry().freeze()) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ── the digest ────────────────────────────────────────────────────────────────────────

FULL = ToolDefinition(
    "read",
    "Read.",
    {"type": "object", "properties": {"a": {"type": "string"}}},
    {"type": "string"},
    side_effects=True,
    idempotent=True,
    timeout=1.0,
    binding=Binding("fs.read", (1, 0), ("a",), {"a": "b"}, {"c": 1}),
    models=("m",),
    tags=("t",),
    untrusted=("body",),
)
CHANGES: dict[str, Any] = {
    "name": "reed",
    "description": "Read!",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "output_schema": None,
    "side_effects": False,
    "idempotent": False,
    "timeout": 2.0,
    "binding": Binding("fs.read", (1, 0), ("a",), {"a": "b"}, {"c": 2}),
    "models": None,
    "tags": (),
    "untrusted": True,
    "private": ("balance",),
    "own": ("id",),
    "directs": ("a",),
    "carries": ("a",),
    "sends_out": True,
    "extract": {"type": "object", "properties": {"due": {"type": "string", "format": "date"}}},
}


@pytest.mark.requirement("nrv.registry")
@given(st.sets(st.from_regex("[a-z]{1,6}", fullmatch=True), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_order(names: set[str], chance: random.Random) -> None:
    order = sorted(names)
    shuffled = list(order)
    chance.shuffle(shuffled)

    assert registered(*map(named, order)).digest == registered(*map(named, shuffled)).digest


@pytest.mark.requirement("nrv.registry")
@pytest.mark.parametrize("field", ToolDefinition.__struct_fields__)
def test_the_digest_changes_with_every_fact(field: str) -> None:
    before = Tool(FULL, handler)

    assert registered(before).digest != registered(before.changed(**{field: CHANGES[field]})).digest


def test_the_digest_tells_ensembles_and_sets_apart() -> None:
    digests = {
        registered().digest,
        registered(named("a")).digest,
        registered(named("a"), named("b")).digest,
        registered(Ensemble("io", [named("a")])).digest,
        registered(Ensemble("web", [named("a")])).digest,
    }

    assert len(digests) == 5


def test_equal_sets_have_equal_digests_in_every_process() -> None:
    assert registered(Tool(FULL, handler)).digest == registered(Tool(FULL, handler)).digest
    assert registered(named("a")).digest == ("sha256:a7beb1cc5fd70c70adcdf670dbc216ed7e7bbcdd06c2c963d3a825f058ef48f2")


# ── finding ───────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("converser.ensemble")
def test_a_tool_is_found_by_its_plain_and_by_its_scoped_name() -> None:
    tools = registered(Ensemble("io", [read_file]), named("now"))

    assert tools.find("io:read_file") is tools.find("read_file")
    assert tools.find("now").name == "now"
    assert "io:read_file" in tools
    assert "web:read_file" not in tools


@pytest.mark.parametrize("name", ["read_fil", "Read_file", "io:read_fil", "read-file"])
def test_a_near_name_is_told_and_never_taken(name: str) -> None:
    with pytest.raises(UnknownTool) as caught:
        registered(Ensemble("io", [read_file])).find(name)

    assert caught.value.name == name
    assert {"read_file", "io:read_file"} & set(caught.value.near)


@pytest.mark.parametrize("name", ["", "\0", "read_file " * 1000, ":", "io:", ":read_file"])
def test_an_odd_name_is_unknown(name: str) -> None:
    with pytest.raises(UnknownTool):
        registered(Ensemble("io", [read_file])).find(name)


def test_a_model_is_offered_only_the_tools_that_name_it_or_no_model() -> None:
    tools = registered(named("all"), named("one", models=("m1",)), named("none", models=()))

    assert [tool.name for tool in tools.for_model("m1")] == ["all", "one"]
    assert [tool.name for tool in tools.for_model("m")] == ["all"]
    assert tools.for_model("m1").digest != tools.digest


def test_everything_that_holds_tools_becomes_one_set() -> None:
    tools = registered(read_file, Ensemble("web", [named("fetch")]), registered(named("now")))

    assert [tool.scoped_name for tool in tools] == ["read_file", "web:fetch", "now"]
    assert isinstance(tools, RegisteredTools)
    assert registered(tools) is tools


def test_the_same_tool_twice_is_a_duplicate_even_from_two_groups() -> None:
    with pytest.raises(DuplicateTool):
        registered(Ensemble("io", [named("read")]), Ensemble("web", [named("read")]))


@pytest.mark.requirement("nrv.handler")
async def test_a_registration_says_the_style_of_a_handler_whose_parameter_has_any_name() -> None:
    async def double(inv: Any) -> int:
        number: int = inv.input["n"]
        return number * 2

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = ToolRegistry().register({"name": "double", "input_schema": schema}, double, style="invocation").freeze()

    async with Executor(tools) as executor:
        result = await executor.invoke(ToolCall("1", "double", {"n": 4}))

    assert (result.outcome, result.content) == ("ok", 8)


def test_a_style_without_a_handler_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="style"):
        ToolRegistry().register(read_file, style="invocation")
