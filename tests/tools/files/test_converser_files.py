"""The TOML files of the converser document load as they stand, and what they say holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import Executor, Policy, ToolCall
from handrail.core.errors import ConfigError, ToolError, UsageError
from handrail.tools.ensemble import Ensemble
from handrail.tools.files.load import load_ensemble, load_ensembles, load_tool
from handrail.tools.registry import ToolRegistry
from handrail.tools.tool import Retry, tool
from tests.tools.files.tool_file_calls import DATA, call, written


def read_file(path: str, encoding: str = "utf-8") -> str:
    """Read a file."""
    return f"{path} as {encoding}"


@pytest.mark.requirement("converser.toml")
def test_the_documents_ensemble_file_loads_with_its_sources_and_defaults() -> None:
    ensemble = load_ensemble(DATA / "ensembles" / "io.toml")
    assert (ensemble.name, ensemble.enabled) == ("io", True)
    assert [tool.scoped_name for tool in ensemble.tools] == ["io:read_file", "io:write_file"]
    reader = ensemble.all_tools["read_file"]
    assert reader.definition.description == "Read contents of a file"
    assert reader.definition.input_schema["properties"]["encoding"]["default"] == "utf-8"
    assert reader.definition.timeout == 30
    assert reader.retry == Retry(attempts=4)
    assert ensemble.all_tools["write_file"].definition.side_effects


@pytest.mark.requirement("converser.toml")
async def test_the_tools_of_the_documents_short_ensemble_file_are_offered_checked_and_run() -> None:
    """It only describes them; what they take and do is said by the functions of their names."""
    written_to: dict[str, str] = {}

    @tool(side_effects=True)
    def write_file(path: str, content: str) -> int:
        written_to[path] = content
        return len(content)

    ensemble = load_ensemble(DATA / "short" / "io.toml", handlers={"read_file": read_file, "write_file": write_file})
    assert ensemble.enabled
    assert [(each.scoped_name, each.definition.description) for each in ensemble.tools] == [
        ("io:read_file", "Read contents of a file"),
        ("io:write_file", "Write content to a file"),
    ]
    calls = [
        ToolCall("1", "io:read_file", {"path": "a.txt", "encoding": "latin-1"}),
        ToolCall("2", "read_file", {"encoding": 7}),
        ToolCall("3", "write_file", {"path": "b.txt", "content": "hello"}),
    ]
    async with Executor([ensemble]) as executor:
        read, wrong, asks = [await executor.invoke(each) for each in calls]
    async with Executor([ensemble], policy=Policy(confirm_side_effects=False)) as executor:
        wrote = await executor.invoke(calls[2])

    assert (read.outcome, read.content) == ("ok", "a.txt as latin-1")
    assert wrong.outcome == "invalid_arguments" and "path" in wrong.text and "encoding" in wrong.text
    assert (asks.outcome, wrote.content, written_to) == ("needs_confirmation", 5, {"b.txt": "hello"})


@pytest.mark.requirement("converser.toml")
async def test_a_handler_given_at_load_does_the_work_of_a_described_tool() -> None:
    described = load_ensemble(DATA / "ensembles" / "io.toml", handlers={"read_file": read_file})
    assert await call(described.all_tools["read_file"], path="a.txt") == "a.txt as utf-8"
    short = load_ensemble(DATA / "short" / "io.toml", handlers={"read_file": read_file})
    reader = short.all_tools["read_file"]
    assert reader.definition.input_schema["required"] == ["path"]
    assert reader.definition.description == "Read contents of a file"


async def test_a_tool_without_a_body_answers_that_it_has_none() -> None:
    described = load_tool(DATA / "ensembles" / "io" / "invokers" / "read_file.toml")
    with pytest.raises(ToolError) as caught:
        await call(described, path="a.txt")
    assert caught.value.code == "not_implemented"
    assert "'read_file'" in caught.value.message


@pytest.mark.requirement("converser.toml", "converser.ensemble")
def test_enabled_holds_at_both_levels(tmp_path: Path) -> None:
    text = """
        [ensemble]
        name = "io"
        enabled = {}
        [[invokers]]
        name = "one"
        enabled = false
        [[invokers]]
        name = "two"
        """
    ensemble = load_ensemble(written(tmp_path, "on.toml", text.format("true")))
    assert [tool.name for tool in ensemble.tools] == ["two"]
    ensemble.enable("one")
    assert [tool.name for tool in ensemble.tools] == ["one", "two"]
    off = load_ensemble(written(tmp_path, "off.toml", text.format("false")))
    assert (off.tools, list(off.all_tools)) == ((), ["one", "two"])


def test_enable_is_read_as_the_older_spelling_of_enabled(tmp_path: Path) -> None:
    path = written(tmp_path, "io.toml", "[ensemble]\nname = 'io'\nenable = false\n")
    assert not load_ensemble(path).enabled
    with pytest.raises(ConfigError):
        load_ensemble(written(tmp_path, "io.toml", "[ensemble]\nname = 'io'\nenable = false\nenabled = true\n"))


def test_keys_beside_a_source_override_those_of_its_file(tmp_path: Path) -> None:
    written(tmp_path, "io/one.toml", "[invoker]\nname = 'one'\nenabled = false\ntimeout = 5\ntags = ['a']\n")
    path = written(
        tmp_path,
        "io.toml",
        """
        [ensemble]
        name = "io"
        [[invokers]]
        source = "io/one.toml"
        name = "uno"
        enabled = true
        timeout = 9
        """,
    )
    (found,) = load_ensemble(path).tools
    assert (found.name, found.definition.timeout, found.definition.tags) == ("uno", 9, ("a",))


@pytest.mark.requirement("converser.ensemble")
async def test_descriptors_and_defaults_prepare_an_ensemble_as_the_document_does() -> None:
    io = Ensemble(name="io")
    descriptor = {"invoker": {"name": "read_file"}, "arguments": {"type": "object", "required": ["path"]}}
    await io.prepare_invokers(descriptors={"read_file": descriptor, "now": {}}, defaults={"timeout": 30})
    assert io.state == "prepared"
    assert [(tool.scoped_name, tool.definition.timeout) for tool in io.tools] == [("io:read_file", 30), ("io:now", 30)]


@pytest.mark.requirement("converser.ensemble")
def test_a_loaded_ensemble_is_registered_and_its_tools_go_by_their_exact_names() -> None:
    tools = ToolRegistry().register(load_ensemble(DATA / "ensembles" / "io.toml")).freeze()
    assert tools.find("io:read_file").name == "read_file"


def test_a_folder_gives_the_ensembles_directly_in_it_by_file_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        written(tmp_path, f"{name}.toml", f"[ensemble]\nname = '{name}'\n[[invokers]]\nname = 'of_{name}'\n")
    written(tmp_path, "deeper/c.toml", "not read")
    first, second = load_ensembles(tmp_path, handlers={"of_b": read_file})
    assert (first.name, second.name) == ("a", "b")
    written(tmp_path, "c.toml", "[ensemble]\nname = 'a'\n")
    with pytest.raises(ConfigError) as caught:
        load_ensembles(tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "c.toml"), 2)
    assert f"{tmp_path / 'a.toml'}:2" in caught.value.why


def test_a_handler_that_no_tool_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="'raed_file'"):
        load_ensemble(DATA / "short" / "io.toml", handlers={"raed_file": read_file})
