"""Tools that are programs, run for real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import InvalidArguments, InvalidOutput, ToolError
from handrail.tools.files.build import build_tool
from handrail.tools.files.command_handler import CommandHandler
from handrail.tools.files.load import load_tool
from handrail.tools.tool import Tool
from tests.examples import examples
from tests.tools.files.tool_file_calls import call, texts, written


def command(run: list[str], schema: Mapping[str, Any] | None = None, base: Path | None = None, **more: Any) -> Tool:
    descriptor: dict[str, Any] = {"name": "t", "command": {"run": run, **more}}
    if schema is not None:
        descriptor["arguments"] = schema
    return build_tool(descriptor, base=base)


def argv(tool: Tool, **arguments: Any) -> list[str]:
    assert isinstance(tool.handler, CommandHandler)
    return tool.handler.argv(arguments)


async def test_the_result_is_what_the_program_wrote() -> None:
    assert await call(build_tool({"name": "t", "command": ["printf", "a\nb\n"]})) == "a\nb\n"


async def test_output_json_is_parsed_and_anything_else_is_an_invalid_output() -> None:
    assert await call(command(["printf", '{{"a": [1]}}'], output="json")) == {"a": [1]}
    with pytest.raises(InvalidOutput):
        await call(command(["printf", "no"], output="json"))


async def test_bytes_that_are_no_text_are_replaced_and_not_lost() -> None:
    assert await call(command(["printf", "a\\377b"])) == "a\ufffdb"


async def test_stdin_is_filled_and_closed() -> None:
    assert await call(command(["cat"], texts("text"), stdin="<{text}>"), text="ü") == "<ü>"
    assert await call(command(["cat"])) == ""
    assert await call(command(["true"], texts("text"), stdin="{text}"), text="x" * 1_000_000) == ""


async def test_a_failure_is_answered_with_its_code_and_the_end_of_stderr() -> None:
    with pytest.raises(ToolError) as caught:
        await call(command(["sh", "-c", "printf '%05000d' 0 >&2; echo why >&2; exit 7"]))
    assert caught.value.code == "exit_7"
    assert caught.value.message.endswith("0why")
    assert len(caught.value.message) < 4300
    with pytest.raises(ToolError) as caught:
        await call(command(["sh", "-c", "kill -9 $$"]))
    assert caught.value.code == "signal_9"


async def test_exit_codes_that_mean_success_can_be_named() -> None:
    assert await call(command(["grep", "x"], ok_codes=[0, 1])) == ""


async def test_a_program_that_is_not_there_is_an_answer() -> None:
    with pytest.raises(ToolError) as caught:
        await call(command(["no-such-program-here"]))
    assert caught.value.code == "not_started"


async def test_the_environment_is_path_and_what_the_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("API_KEY", "hidden")
    tool = command(["env"], env=["HOME", "NOT_SET_ANYWHERE"], env_set={"LANG": "C.UTF-8"})
    lines = (await call(tool)).splitlines()
    assert sorted(lines) == ["HOME=/home/me", "LANG=C.UTF-8", f"PATH={os.environ['PATH']}"]


async def test_it_runs_in_the_folder_of_its_file_or_one_from_there(tmp_path: Path) -> None:
    script = written(tmp_path, "tools/hello", "#!/bin/sh\necho hello from $(basename $PWD)\n")
    script.chmod(0o755)
    path = written(tmp_path, "tools/hello.toml", '[invoker]\nname = "hello"\ncommand = ["./hello"]\n')
    assert await call(load_tool(path)) == "hello from tools\n"
    assert await call(command(["ls"], base=tmp_path, cwd="tools")) == "hello\nhello.toml\n"


HOSTILE = ["; rm -rf /", "$(id)", "`id`", "a b", "'", '"', "*", "| cat", "\n", "../..", "{text}", "${HOME}", "\\", ""]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_argument_is_ever_read_as_a_command(text: str) -> None:
    assert await call(command(["printf", "%s|", "{text}", "x{text}"], texts("text")), text=text) == f"{text}|x{text}|"


@settings(max_examples=examples(30), deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(lambda text: not text.startswith("-")))
def test_every_text_reaches_the_program_as_it_is(text: str) -> None:
    tool = command(["printf", "%s", "{text}"], texts("text"))
    # The result is text, so what is compared is bytes that went through a pipe.
    assert asyncio.run(call(tool, text=text)) == text


@pytest.mark.parametrize("element", ["{text}", "{text?}", "{text}.txt"])
def test_a_value_that_would_pose_as_an_option_is_refused(element: str) -> None:
    for value in ("-o", "--output=/etc/passwd", "-"):
        with pytest.raises(InvalidArguments, match="text"):
            argv(command(["sort", element], texts("text")), text=value)
    assert argv(command(["sort", f"--key={element}"], texts("text")), text="-1")
    assert argv(command(["sort", element], texts("text"), allow_dash=True), text="-o")


def test_an_option_hidden_in_a_list_is_refused_too() -> None:
    tool = command(["ls", "{paths...}"], {"type": "object", "properties": {"paths": {"type": "array"}}})
    assert argv(tool, paths=["a", "b"]) == ["ls", "a", "b"]
    assert argv(tool) == ["ls"]
    with pytest.raises(InvalidArguments, match="paths"):
        argv(tool, paths=["a", "-la"])


async def test_a_nul_in_an_argument_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        await call(command(["printf", "{text}"], texts("text")), text="a\0b")


async def test_a_program_that_writes_without_end_is_stopped() -> None:
    with pytest.raises(ToolError) as caught:
        await call(command(["yes"], max_bytes=1000))
    assert caught.value.code == "output_too_large"
    assert await call(command(["printf", "1234"], max_bytes=4)) == "1234"


WAITS = 'exec 3>"$1"; sleep 1000 & echo started >&3; wait'
IGNORES = f'trap "" TERM; {WAITS}'
LEAVES = 'exec 3>"$1"; echo started >&3; sleep 1000 & echo done'


class Alive:
    """A pipe whose other end every process of a command holds, so that it closes when the last of them is gone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "alive"
        os.mkfifo(self.path)
        self._kept_open = os.open(self.path, os.O_RDWR)
        self._file = open(os.open(self.path, os.O_RDONLY))  # noqa: SIM115  (`closed` closes it)

    def tool(self, script: str) -> Tool:
        tool = command(["sh", "-c", script, "sh", str(self.path)])
        assert isinstance(tool.handler, CommandHandler)
        return tool.changed(handler=replace(tool.handler, grace=0.05))

    def wait_until_started(self) -> None:
        """Blocks the loop too: nothing else gets on meanwhile."""
        assert self._file.readline() == "started\n"
        os.close(self._kept_open)

    async def closed(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._file)
        async with asyncio.timeout(10):
            assert await reader.read() == b""


@pytest.fixture
def alive(tmp_path: Path) -> Alive:
    return Alive(tmp_path)


@pytest.mark.parametrize("script", [WAITS, IGNORES], ids=["waits", "ignores SIGTERM"])
async def test_a_cancelled_command_ends_with_all_its_children(alive: Alive, script: str) -> None:
    task = asyncio.create_task(call(alive.tool(script)))
    await asyncio.to_thread(alive.wait_until_started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await alive.closed()


async def test_a_command_cancelled_while_it_is_started_ends_with_all_its_children(alive: Alive) -> None:
    task = asyncio.create_task(call(alive.tool(IGNORES)))
    for _ in range(2):
        await asyncio.sleep(0)  # not a wait: the loop's turns until the process is made
    alive.wait_until_started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await alive.closed()


async def test_what_a_command_leaves_running_is_ended_with_it(alive: Alive) -> None:
    task = asyncio.create_task(call(alive.tool(LEAVES)))
    await asyncio.to_thread(alive.wait_until_started)
    assert await task == "done\n"
    await alive.closed()
