"""MCP servers of a configuration in an app: asked about, started at once, told when they fail, kept apart by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from handrail.app import open_app
from handrail.config.mcp import McpSettings
from handrail.config.values import Config
from handrail.core.errors import McpError, UsageError
from handrail.mcp.values import StdioEndpoint
from tests.app.app_folder import AppFolder, call, names
from tests.mcp.servers.described_server import command, describe, starts, tool


async def test_servers_files_and_standard_ensembles_are_one_set_of_tools(place: AppFolder) -> None:
    (place.folder / "docs").mkdir()
    text = place.server("a", tool("one", "First.")) + place.server("b", tool("two"))

    async with place.app(text + '[standard.io]\nroots = { docs = "docs" }\n[standard.probability]\n') as app:
        offered = names(app)
        result = await call(app, "one", word="hi")

    assert {"a:one", "b:two", "io:read_file", "probability:roll_dice"} <= set(offered)
    assert result.outcome == "needs_confirmation"  # it does not say that it only reads
    assert place.asked == ["a: it is not approved", "b: it is not approved"]


async def test_a_server_that_was_approved_is_not_asked_about_again(place: AppFolder) -> None:
    text = place.server("a", tool("look", annotations={"readOnlyHint": True}))
    async with place.app(text):
        pass

    async with place.app(text) as app:
        result = await call(app, "a:look", word="hi")

    assert json.loads(result.text)["word"] == "hi"
    assert len(place.asked) == 1
    assert [line for line in place.told if "first time" in line] == place.told[:1]


async def test_nothing_is_started_without_approval_and_the_person_is_told_what_it_is(place: AppFolder) -> None:
    place.says_yes = False
    text = place.server("a", tool("one"))

    async with place.app(text) as app:
        offered = names(app)

    (told,) = place.told
    assert (offered, starts(place.folder / "a.json")) == ([], 0)
    assert "described_server.py" in told
    assert "handrail mcp approve a" in told


async def test_without_anybody_to_ask_a_server_that_is_required_ends_the_start(place: AppFolder) -> None:
    place.asks = False
    text = place.server("a", tool("one")) + "required = true\n"

    with pytest.raises(UsageError, match="handrail mcp approve a"):
        async with place.app(text):
            raise NotImplementedError

    assert starts(place.folder / "a.json") == 0


async def test_a_configuration_made_in_code_needs_no_approval(place: AppFolder) -> None:
    first, *rest = command(describe(place.folder / "a.json", tool("one")))
    config = Config(mcp={"a": McpSettings(endpoint=StdioEndpoint(command=first, args=tuple(rest)))})

    async with open_app(config, place.folder / "journal.db", person=place.person) as app:
        offered = names(app)

    assert (offered, place.asked, place.approvals.path.exists()) == (["a:one"], [], False)


async def test_a_server_that_fails_is_told_and_the_others_serve(place: AppFolder) -> None:
    text = place.server("a", tool("one")) + '[mcp.dead]\ncommand = "false"\nstart_timeout = 5\n'

    async with place.app(text) as app:
        offered = names(app)

    assert offered == ["a:one"]
    assert any("'dead'" in line and "come when it does" in line for line in place.told)


async def test_a_server_that_is_required_and_fails_ends_the_start(place: AppFolder) -> None:
    text = place.server("a", tool("one")) + '[mcp.dead]\ncommand = "false"\nrequired = true\nstart_timeout = 5\n'

    with pytest.raises(McpError, match="dead"):
        async with place.app(text):
            raise NotImplementedError


async def test_a_variable_that_is_missing_keeps_only_its_server_out(place: AppFolder) -> None:
    text = place.server("a", tool("one")) + place.server("b", tool("two")) + 'env = { X = "env:NOT_SET_ANYWHERE" }\n'

    async with place.app(text) as app:
        offered = names(app)

    assert offered == ["a:one"]
    assert any("handrail.toml:5: mcp.b.env.X: the environment variable" in line for line in place.told)


async def test_all_are_started_at_once(place: AppFolder) -> None:
    """Each server waits for all the others to be there before it answers."""
    rendezvous = place.folder / "rendezvous"
    rendezvous.mkdir()
    script = place.folder / "meeting.py"
    script.write_text(
        "import pathlib, runpy, sys, time\n"
        f"here = pathlib.Path({str(rendezvous)!r})\n"
        "(here / sys.argv[2]).touch()\n"
        "while len(list(here.iterdir())) < 5:\n    time.sleep(0.01)\n"
        "sys.argv = sys.argv[:2]\n"
        "import tests.mcp.servers.described_server as described\n"
        "described.main(pathlib.Path(sys.argv[1]))\n"
    )
    root = str(Path(__file__).parents[2])
    text = ""
    for each in "abcde":
        first, _, file = command(describe(place.folder / f"{each}.json", tool(f"tool_{each}")))
        text += f"[mcp.{each}]\ncommand = {json.dumps([first, str(script), file, each])}\n"
        text += f"env = {{ PYTHONPATH = {json.dumps(root)} }}\nstart_timeout = 25\n"

    async with place.app(text) as app:
        offered = names(app)

    assert offered == [f"{each}:tool_{each}" for each in "abcde"]


async def test_two_servers_with_one_name_for_a_tool_are_refused_with_how_to_tell_them_apart(place: AppFolder) -> None:
    text = place.server("a", tool("search")) + place.server("b", tool("search"))

    with pytest.raises(UsageError, match=r'under \[mcp\.b\], write prefix = "b_"'):
        async with place.app(text):
            raise NotImplementedError

    async with place.app(text + 'prefix = "b_"\n') as app:
        assert names(app) == ["a:search", "b:b_search"]


async def test_the_default_set_may_name_tools_of_servers(place: AppFolder) -> None:
    text = '[llm]\ntools_default_set = ["two"]\n' + place.server("a", tool("one"), tool("two"))

    async with place.app(text) as app:
        assert names(app) == ["a:two"]

    with pytest.raises(UsageError, match="no tool 'twoo' in the ensembles; did you mean 'two'"):
        async with place.app(text.replace('["two"]', '["twoo"]')):
            raise NotImplementedError


async def test_tools_that_a_server_gets_later_are_there_for_the_runs_that_begin_then(place: AppFolder) -> None:
    read: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
    text = place.server("a", tool("renew", **read)) + 'new_tools = "allow"\n'
    async with place.app(text) as app:
        changed = asyncio.Event()
        app.listeners.append(changed.set)
        describe(place.folder / "a.json", tool("renew", **read), tool("late", **read))
        await call(app, "renew", run="early")
        await asyncio.wait_for(changed.wait(), 20)

        early = await call(app, "late", run="early")
        late = await call(app, "late", run="late")

    assert (early.outcome, late.outcome) == ("unknown_tool", "ok")


async def test_text_that_no_file_can_hold_is_repaired_before_it_is_kept(place: AppFolder) -> None:
    text = place.server("a", tool("odd", "half a letter: \ud83d"))

    for _ in range(2):
        async with place.app(text) as app:
            assert (names(app), app.servers["a"].ensemble.held) == (["a:odd"], {})
