"""Files that change while a program runs: noticed, read anew, and taken up by the runs that begin then."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from handrail.config.watch import WatchedFiles, config_files
from handrail.core.errors import ConfigError, UsageError
from handrail.mcp.values import RemoteTool
from tests.app.app_folder import AppFolder, call, names
from tests.mcp.servers.described_server import describe, starts, tool

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
ENSEMBLE = """
[ensemble]
name = "box"
[[invokers]]
name = "{name}"
python = "textwrap:dedent"
side_effects = false
arguments = {{ text = {{ type = "string" }} }}
"""


@pytest.fixture
def place(tmp_path: Path) -> AppFolder:
    return AppFolder(tmp_path)


def test_what_changed_came_or_went_is_seen_once(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in "123")
    one.write_text("a")
    two.write_text("a")
    files = (one, two, three)
    watch = WatchedFiles(files)
    assert watch.look(files) == ()

    one.write_text("ab")
    two.unlink()
    three.write_text("a")

    assert set(watch.look(files)) == {one, two, three}
    assert watch.look(files) == ()


def test_a_file_that_is_exchanged_for_one_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("a")
    other.write_text("b")
    now = path.stat()
    os.utime(other, ns=(now.st_atime_ns, now.st_mtime_ns))
    watch = WatchedFiles((path,))

    other.replace(path)

    assert watch.look((path,)) == (path,)


def test_the_files_of_a_configuration_are_itself_its_ensembles_and_what_those_name(tmp_path: Path) -> None:
    box = tmp_path / "box.toml"
    box.write_text('[ensemble]\nname = "box"\n[[invokers]]\nsource = "add.toml"\n[[invokers]]\nname = "x"\n')
    broken = tmp_path / "broken.toml"
    broken.write_text("=")

    found = config_files(tmp_path / "handrail.toml", [box, broken])

    assert found == (tmp_path / "handrail.toml", box, tmp_path / "add.toml", broken)


async def test_a_change_gives_new_runs_other_tools_and_runs_under_way_keep_theirs(place: AppFolder) -> None:
    (place.folder / "box.toml").write_text(ENSEMBLE.format(name="before"))
    async with place.app('ensembles = ["box.toml"]\n') as app:
        assert not await app.refresh()
        first = await call(app, "before", run="early", text="a")
        (place.folder / "box.toml").write_text(ENSEMBLE.format(name="after"))

        renewed = await app.refresh()
        kept = await call(app, "before", run="early", text="b")
        gone = await call(app, "before", run="late", text="a")
        new = await call(app, "after", run="late", text="a")
        again = await app.refresh()

    assert (first.outcome, renewed, again) == ("ok", True, False)
    assert (kept.outcome, gone.outcome, new.outcome) == ("ok", "unknown_tool", "ok")


async def test_a_mistake_is_reported_once_and_everything_stays_until_it_is_fixed(place: AppFolder) -> None:
    (place.folder / "box.toml").write_text(ENSEMBLE.format(name="before"))
    good = 'ensembles = ["box.toml"]\n'
    async with place.app(good) as app:
        for wrong in ("ensembles = 3\n", "ensembles = 3\n\n"):
            place.config(wrong)
            assert not await app.refresh()
        told = list(place.told)
        with pytest.raises(ConfigError):
            await app.reload()
        kept = names(app)
        place.config(good)
        (place.folder / "box.toml").write_text(ENSEMBLE.format(name="after"))
        mended = await app.refresh()

        assert (kept, names(app), mended) == (["box:before"], ["box:after"], True)
    (line,) = told
    assert "handrail.toml:1: ensembles: must be a list" in line
    assert "stays as it was" in line


@pytest.mark.parametrize("wrong", ["[ensemble]\nname = 3\n", None])
async def test_a_mistake_in_a_newly_named_file_can_be_fixed_there(place: AppFolder, wrong: str | None) -> None:
    async with place.app("") as app:
        if wrong is not None:
            (place.folder / "box.toml").write_text(wrong)
        place.config('ensembles = ["box.toml"]\n')
        assert not await app.refresh()
        (place.folder / "box.toml").write_text(ENSEMBLE.format(name="after"))

        assert await app.refresh()
        assert names(app) == ["box:after"]
    (told,) = place.told
    assert "stays as it was" in told


async def test_a_server_that_a_change_does_not_touch_keeps_its_connection(place: AppFolder) -> None:
    text = place.server("a", tool("look", **READ))
    async with place.app(text) as app:
        before = json.loads((await call(app, "look", run="early")).text)["pid"]
        place.config(text + place.server("b", tool("peek", **READ)))

        renewed = await app.refresh()
        after = json.loads((await call(app, "look", run="late")).text)["pid"]
        joined = await call(app, "peek", run="late")

    assert (renewed, before == after, joined.outcome) == (True, True, "ok")
    assert starts(place.folder / "a.json") == 1


async def test_a_server_that_is_taken_out_serves_the_runs_that_began_with_it(place: AppFolder) -> None:
    text = place.server("a", tool("look", **READ))
    async with place.app(text) as app:
        await call(app, "look", run="early", n=1)
        place.config("")
        await app.refresh()

        kept = await call(app, "look", run="early", n=2)
        gone = await call(app, "look", run="late")

    assert (kept.outcome, gone.outcome) == ("ok", "unknown_tool")


async def test_a_server_that_is_taken_out_is_closed_after_the_last_run_that_began_with_it(place: AppFolder) -> None:
    text = '[models.m]\nprovider = "scripted"\nmodel = "script.toml"\n'
    (place.folder / "script.toml").write_text('[[reply]]\ntext = "x"\n')
    async with place.app(text) as app:
        await call(app, "look", run="before it")  # a run that never had it does not keep it
        place.config(text + place.server("a", tool("look", **READ)) + 'sampling = "m"\n')
        await app.refresh()
        await call(app, "look", run="early")
        server = app.servers["a"]
        place.config(text)
        await app.refresh()
        kept = server.ensemble.state, len(server.lent)

        await app.executor.finish("early")
        await app.refresh()

        assert (kept, server.ensemble.state, server.lent) == (("prepared", 1), "closed", [])


async def test_a_server_that_may_ask_a_model_is_rebuilt_with_the_models(place: AppFolder) -> None:
    text = place.server("a", tool("look", **READ)) + 'sampling = "m"\n[models.m]\nprovider = "scripted"\n'
    (place.folder / "script.toml").write_text('[[reply]]\ntext = "x"\n')
    (place.folder / "other.toml").write_text('[[reply]]\ntext = "y"\n')
    async with place.app(text + 'model = "script.toml"\n') as app:
        before = app.servers["a"]
        place.config(text + 'model = "other.toml"\n')
        await app.refresh()

        assert app.servers["a"] is not before
        assert before.ensemble.state == "closed"


async def test_a_name_that_a_change_brings_twice_leaves_everything_as_it_was(place: AppFolder) -> None:
    text = place.server("a", tool("look", **READ))
    async with place.app(text) as app:
        config = app.config
        place.config('rules = ["deny a:look"]\n' + text + place.server("b", tool("look", **READ)))

        with pytest.raises(UsageError, match=r"under \[mcp\.b\]"):
            await app.reload()

        assert (app.config, list(app.servers), names(app)) == (config, ["a"], ["a:look"])
        assert (await call(app, "look")).outcome == "ok"


async def test_what_is_written_while_files_are_taken_up_is_taken_up_next(place: AppFolder) -> None:
    """The person is asked in mid-reload; until they answer, somebody writes."""
    first, second = place.server("a", tool("look", **READ)), place.server("b", tool("peek", **READ))
    async with place.app("") as app:
        place.config(first)
        place.meanwhile = lambda: place.config(first + second)
        await app.refresh()
        place.meanwhile = None
        before = names(app)

        assert await app.refresh()
        assert (before, names(app)) == (["a:look"], ["a:look", "b:peek"])
        assert starts(place.folder / "a.json") == 1
        assert not await app.refresh()


async def test_a_rule_that_a_change_takes_away_holds_no_more_for_runs_that_began_with_it(place: AppFolder) -> None:
    text = place.server("a", tool("pay"))
    async with place.app('rules = ["allow a:pay"]\n' + text) as app:
        before = await call(app, "pay", run="run", n=1)
        place.config(place.server("b", tool("look")))
        await app.refresh()
        after = await call(app, "pay", run="run", n=2)

    assert (before.outcome, after.outcome) == ("ok", "needs_confirmation")


async def test_a_command_that_a_change_brings_waits_for_approval(place: AppFolder) -> None:
    async with place.app("") as app:
        place.says_yes = False
        place.config(place.server("a", tool("look")))

        await app.refresh()

        assert names(app) == []
    assert starts(place.folder / "a.json") == 0
    assert "handrail mcp approve a" in place.told[0]


async def test_a_rule_that_a_change_brings_holds_at_once_though_the_tools_stay(place: AppFolder) -> None:
    text = place.server("a", tool("pay"))
    async with place.app(text) as app:
        before = await call(app, "pay", run="run", n=1)
        place.config('rules = ["allow a:pay"]\n' + text)
        renewed = await app.refresh()
        after = await call(app, "pay", run="run", n=2)

    assert (before.outcome, renewed, after.outcome) == ("needs_confirmation", False, "ok")


async def test_an_approval_given_in_another_process_is_used(place: AppFolder) -> None:
    text = place.server("a", tool("look", "Look.", **READ))
    async with place.app(text):
        pass
    describe(place.folder / "a.json", tool("look", "Look. And steal.", **READ))
    async with place.app(text) as app:
        held = names(app)
        server = app.servers["a"]
        assert place.approvals.of(place.folder / "handrail.toml", "a") is not None
        assert "And steal" in server.ensemble.held["look"]
        seen = {"look": _remote("Look. And steal.")}
        place.approvals.pin(place.folder / "handrail.toml", "a", server.settings.endpoint, seen, by="ada")

        renewed = await app.refresh()

        assert (held, renewed, names(app)) == ([], True, ["a:look"])
    assert starts(place.folder / "a.json") == 2  # once for each app: it was only asked again


def _remote(description: str) -> RemoteTool:
    return RemoteTool(name="look", description=description, input_schema={"type": "object"}, read_only=True)
