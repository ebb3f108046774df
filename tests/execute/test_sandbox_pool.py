"""Tools with isolation="sandbox": honest ones work, and the others get nothing. Real jails, real attacks."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from handrail import Context, Executor, Policy, Principal, Tool, ToolCall, ToolResult
from handrail.core.errors import InvalidDefinition, SandboxUnavailable
from handrail.core.events import CallProgress, CallSettled, Event
from handrail.core.invocation import Invocation
from handrail.execute.isolation import sandbox_pool
from handrail.execute.isolation.sandbox_pool import SandboxPool
from handrail.execute.isolation.worker_limits import SandboxLimits
from handrail.sandbox.jail import unavailable
from handrail.testing.journal import MemoryJournal
from handrail.tools.sandbox_access import SandboxAccess
from tests.execute.isolation import sandboxed_tools as tools
from tests.execute.isolation.test_process_pool import Watched, ended
from tests.processes import children, own_memory
from tests.sandbox.attacks import os_attacks as attacks
from tests.sandbox.attacks.os_attacks import CANARY, Attack, Facts

ROOT = Path(__file__).parents[2]
IS_BELOW_TMP = ROOT.is_relative_to("/tmp")
"""Then its own /tmp has folders of the same names, which it may fill."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[Executor]:
    """One for all of them, so that a worker that has survived one attack meets the next."""
    every = [each for each in vars(tools).values() if isinstance(each, Tool)]
    async with Executor(every, policy=Policy(sandbox=SandboxLimits(calls=1_000))) as executor:
        yield executor


async def ask(executor: Executor, name: str, **arguments: Any) -> ToolResult:
    async with asyncio.timeout(250):
        return await executor.invoke(ToolCall("", name, arguments))


async def asked_of(tool: Tool, policy: Policy = Policy(), **arguments: Any) -> ToolResult:
    async with Executor([tool], policy=policy) as executor:
        return await ask(executor, tool.name, **arguments)


# Honest tools.


@pytest.mark.requirement("abstractllm.sandbox")
async def test_an_honest_tool_has_its_libraries_and_files_of_its_own(executor: Executor) -> None:
    assert (await ask(executor, "words", text="to be or not to be")).content == {"be": 2, "not": 1, "or": 1, "to": 2}


async def test_an_async_tool_has_a_loop_and_threads(executor: Executor) -> None:
    assert (await ask(executor, "gather", n=5)).content == [0, 1, 4, 9, 16]


async def test_progress_comes_out_while_it_runs(executor: Executor) -> None:
    seen: list[Event] = []

    async def emit(event: Event) -> None:
        seen.append(event)

    await executor.invoke(ToolCall("", "steps", {"n": 3}), emit=emit)
    assert [event.stage for event in seen if isinstance(event, CallProgress)] == ["step 0", "step 1", "step 2"]


async def test_warnings_and_attachments_come_back(executor: Executor) -> None:
    result = await ask(executor, "picture")
    assert (result.warnings, result.attachments[0].data) == (("in two colours",), b"\x89PNG")


async def test_types_are_made_in_the_sandbox_and_not_in_the_host(executor: Executor) -> None:
    assert (await ask(executor, "worth", coin={"worth": 5})).content == 5
    assert tools.MADE == []


async def test_the_token_of_the_caller_does_not_cross(executor: Executor) -> None:
    context = Context(token="sk-secret", principal=Principal("ann"))
    result = await executor.invoke(ToolCall("call-who", "who"), context)
    assert result.content == {"token": None, "principal": "ann", "key": "call-who"}


async def test_a_sandboxed_tool_calls_no_other(executor: Executor) -> None:
    result = await ask(executor, "call_another")
    assert "cannot be called from a tool in another process" in result.text


async def test_a_named_file_can_be_read_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("eur,usd")
    (tmp_path / "keys.txt").write_text("sk-secret")
    reads = tools.read.changed(sandbox=SandboxAccess(read=(tmp_path / "rates.csv",)))
    async with Executor([reads]) as executor:
        assert (await ask(executor, "read", path=str(tmp_path / "rates.csv"))).text == "eur,usd"
        assert "FileNotFoundError" in (await ask(executor, "read", path=str(tmp_path / "keys.txt"))).text


async def test_a_relative_path_is_found_from_where_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rates.csv").write_text("eur,usd")
    monkeypatch.chdir(tmp_path)
    reads = tools.read.changed(sandbox=SandboxAccess(read=("data/",)))
    assert (await asked_of(reads, path="data/rates.csv")).text == "eur,usd"


@pytest.mark.requirement("abstractllm.sandbox")
async def test_what_may_be_read_cannot_be_written_and_links_in_it_lead_nowhere(tmp_path: Path) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden.txt"
    shown.mkdir()
    hidden.write_text("sk-secret")
    (shown / "link").symlink_to(hidden)
    access = SandboxAccess(read=(shown,))
    writes, reads = tools.write.changed(sandbox=access), tools.read.changed(sandbox=access)
    async with Executor([writes, reads]) as executor:
        assert "Read-only file system" in (await ask(executor, "write", path=str(shown / "new"))).text
        assert "FileNotFoundError" in (await ask(executor, "read", path=str(shown / "link"))).text
    assert [path.name for path in shown.iterdir()] == ["link"]


async def test_a_warm_worker_keeps_its_variables_unless_the_tool_says_otherwise() -> None:
    async with Executor([tools.remember]) as executor:
        await ask(executor, "remember", word="a")
        assert (await ask(executor, "remember", word="b")).content == ["a", "b"]
    forgets = tools.remember.changed(sandbox=SandboxAccess(reuse=False))
    async with Executor([forgets]) as executor:
        await ask(executor, "remember", word="a")
        assert (await ask(executor, "remember", word="b")).content == ["b"]
    assert tools.KEPT == []


async def test_a_worker_answers_only_so_many_calls() -> None:
    async with Executor([tools.remember], policy=Policy(sandbox=SandboxLimits(calls=2))) as executor:
        kept = [(await ask(executor, "remember", word=word)).content for word in "abc"]
    assert kept == [["a"], ["a", "b"], ["c"]]


async def test_a_module_of_its_own_is_seen_and_its_neighbours_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "handrail.toml").write_text("[models]\n")
    (tmp_path / "helper.py").write_text("WORD = 'help'\n")
    (tmp_path / "lonely_tools.py").write_text(LONELY)
    monkeypatch.syspath_prepend(tmp_path)
    import lonely_tools  # type: ignore[import-not-found]  # written a line above

    monkeypatch.setitem(sys.modules, "lonely_tools", lonely_tools)
    async with Executor([lonely_tools.look, lonely_tools.helped]) as executor:
        assert (await ask(executor, "look", folder=str(tmp_path))).content == ["lonely_tools.py"]
        assert "No module named 'helper'" in (await ask(executor, "helped")).text


# Attacks.


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Facts]:
    """A host with something to lose."""
    monkeypatch.setenv(CANARY, "sk-canary")
    (tmp_path / "secret.txt").write_text("sk-canary")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0handrail-{os.getpid()}-{tmp_path.name}")
        abstract.listen()
        yield Facts(
            file=str(tmp_path / "secret.txt"),
            folder=str(tmp_path),
            pid=os.getpid(),
            port=tcp.getsockname()[1],
            abstract=abstract.getsockname()[1:].decode(),
            memory_bytes=SandboxLimits().memory_bytes,
            disk_bytes=SandboxLimits().disk_bytes,
            open_files=256,
        )


@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_attack_of_the_corpus_gets_anything_as_a_tool(executor: Executor, facts: Facts) -> None:
    got = {}
    for attack in (*attacks.CALM, *attacks.AFTER_LOCK):
        got[attack.name] = (await ask(executor, "python", code=_code(attack, facts))).content
    assert got == dict.fromkeys(got, "")


@pytest.mark.requirement("abstractllm.sandbox")
@pytest.mark.parametrize("attack", [one for one in attacks.ENDS if "while" not in one.code], ids=lambda one: one.name)
async def test_an_attack_that_ends_its_worker_is_an_answer(executor: Executor, facts: Facts, attack: Attack) -> None:
    result = await ask(executor, "python", code=_code(attack, facts))
    assert result.error is not None
    assert result.error.code == "worker_lost"
    assert (await ask(executor, "words", text="a")).content == {"a": 1}


def _code(attack: Attack, facts: Facts) -> str:
    """What the attack got. Whatever else it raises than what a border would, it was no attack."""
    return f"""
space = {{'host': {facts!r}}}
try:
    exec({attack.code!r}, space)
except (OSError, MemoryError, RuntimeError):
    space['got'] = None
answer = repr(space['got']) if space['got'] else ''
"""


@pytest.mark.requirement("abstractllm.sandbox")
async def test_nothing_of_the_hosts_environment_is_there(executor: Executor, facts: Facts) -> None:
    result = await ask(executor, "environment")
    assert not result.is_error
    assert "PATH" in result.text
    assert "canary" not in result.text.lower()
    assert str(os.environ["HOME"]) not in result.content.partition('"PATH"')[0]


@pytest.mark.requirement("abstractllm.sandbox")
async def test_there_is_no_network(executor: Executor, facts: Facts) -> None:
    result = await ask(executor, "connect", host="127.0.0.1", port=facts["port"])
    assert not result.is_error
    assert "reached" not in result.text


@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_process_and_no_other_program_is_started(executor: Executor) -> None:
    assert (await ask(executor, "start", program=sys.executable)).text == " ".join(["PermissionError"] * 3)


@pytest.mark.requirement("abstractllm.sandbox")
@pytest.mark.parametrize("path", ["pyproject.toml", "src/handrail/core/framing.py", ".venv/escaped.pth"])
async def test_nothing_of_the_project_is_written(executor: Executor, path: str) -> None:
    result = await ask(executor, "write", path=str(ROOT / path))
    assert result.is_error or IS_BELOW_TMP
    assert "was here" not in ((ROOT / path).read_text() if (ROOT / path).exists() else "")


@pytest.mark.requirement("abstractllm.sandbox")
@pytest.mark.parametrize("path", ["pyproject.toml", ".git/config", "docs/index.md", "packages"])
async def test_nothing_of_the_project_is_read_but_code(executor: Executor, path: str) -> None:
    assert (ROOT / path).exists() or path == ".git/config"
    read = (await ask(executor, "read", path=str(ROOT / path))).text
    assert "FileNotFoundError" in read or (IS_BELOW_TMP and read == "was here")


async def test_a_tool_may_take_nearly_all_of_its_memory_limit(executor: Executor) -> None:
    assert (await ask(executor, "take", mebibytes=270)).content == 270 * 2**20


@pytest.mark.requirement("abstractllm.sandbox")
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("memory", "limit of 64 MiB of memory"),
        ("more memory", "limit of 64 MiB of memory"),
        ("map", "Cannot allocate memory"),
        ("disk", "OSError"),
        ("files", "Too many open files"),
        ("processor", "limit of 1 s of processor time"),
    ],
)
async def test_what_it_hoards_has_an_end(executor: Executor, what: str, words: str) -> None:
    assert words in (await ask(executor, "hoard", what=what)).text


@pytest.mark.slow
@pytest.mark.requirement("abstractllm.sandbox")
async def test_a_tool_that_does_not_heed_its_processor_time_is_killed_by_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox_pool, "_START_SECONDS", 0)  # less to wait for
    stubborn = tools.python.changed(timeout=60, sandbox=SandboxAccess(cpu_seconds=1, reuse=False))
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert "SIGKILL" in (await asked_of(stubborn, code=code)).text


@pytest.mark.requirement("abstractllm.sandbox")
async def test_threads_without_end_have_one(executor: Executor) -> None:
    assert (await ask(executor, "hoard", what="threads")).is_error
    assert (await ask(executor, "words", text="a")).content == {"a": 1}


@pytest.mark.requirement("abstractllm.sandbox")
async def test_a_link_that_it_plants_leads_nowhere_and_is_not_there_for_the_host(
    executor: Executor, facts: Facts
) -> None:
    result = await ask(executor, "plant", link="/tmp/handrail-planted", target=facts["file"])
    assert "FileNotFoundError" in result.text
    assert "handrail-planted" not in os.listdir("/tmp")


@pytest.mark.requirement("abstractllm.sandbox")
async def test_floods_by_every_channel_leave_the_host_small_and_awake(
    executor: Executor, capfd: pytest.CaptureFixture[str]
) -> None:
    await ask(executor, "flood", where="forged")
    sizes = [own_memory()]

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            sizes.append(own_memory())

    ticking = asyncio.create_task(tick())
    said = {where: (await ask(executor, "flood", where=where)) for where in ("stdout", "progress", "frames", "result")}
    ticking.cancel()
    assert [said[where].text for where in ("stdout", "progress", "frames")] == ["flooded"] * 3
    assert "at most 8388608" in said["result"].text
    assert len(sizes) > 10
    assert max(sizes) - sizes[0] < 100 * 2**20
    assert capfd.readouterr() == ("", "")


async def test_what_it_says_of_its_progress_is_cut_and_counted(executor: Executor) -> None:
    stages: list[str] = []

    async def emit(event: Event) -> None:
        if isinstance(event, CallProgress):
            stages.append(event.stage)

    await executor.invoke(ToolCall("", "flood", {"where": "progress"}), emit=emit)
    assert {len(stage) for stage in stages} == {500}
    assert len(stages) <= 10_000


async def test_frames_that_are_none_end_the_worker_and_are_named(executor: Executor) -> None:
    result = await ask(executor, "flood", where="huge")
    assert "answered with something unreadable" in result.text
    assert "nothing that it did is left" in result.text


async def test_an_answer_to_another_call_is_not_taken_for_this_one(executor: Executor) -> None:
    assert (await ask(executor, "flood", where="forged")).text == "flooded"
    assert (await ask(executor, "steps", n=1)).text == "done"


async def test_a_worker_that_speaks_unasked_is_ended() -> None:
    before = _jails()
    async with Executor([tools.speak_later]) as executor:
        assert (await ask(executor, "speak_later")).text == "for now"
        for pid in _jails() - before:
            await ended(pid)
        assert (await ask(executor, "speak_later")).text == "for now"


async def test_what_comes_back_is_never_code(executor: Executor) -> None:
    result = await ask(executor, "loaded")
    assert result.error is not None
    assert result.error.code == "invalid_output"


@pytest.mark.parametrize("how", ["thread", "interpreter"])
async def test_a_call_over_its_time_is_answered_and_its_jail_is_gone(how: str) -> None:
    before = _jails()
    async with Executor([tools.hang.changed(timeout=0.5)]) as executor:
        result = await ask(executor, "hang", how=how)
        assert result.outcome == "timeout"
        assert "nothing that it did is left" in result.text
        assert _jails() == before
    assert _jails() == before


async def test_a_cancelled_call_takes_its_jail_with_it() -> None:
    before, running = _jails(), asyncio.Event()

    async def emit(event: Event) -> None:
        if isinstance(event, CallProgress):
            running.set()

    journal = MemoryJournal()
    async with Executor([tools.hang], journal=journal) as executor:
        call = asyncio.create_task(executor.invoke(ToolCall("", "hang", {"how": "interpreter"}), emit=emit))
        async with asyncio.timeout(30):
            await running.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert _jails() == before
    (settled,) = [event for event in journal.events if isinstance(event, CallSettled)]
    assert settled.result is not None
    assert "nothing that it did is left" in settled.result.text


async def test_closing_leaves_no_process_and_no_file_behind() -> None:
    before = _jails(), set(os.listdir("/proc/self/fd"))
    async with Executor([tools.words, tools.crash]) as executor:
        await ask(executor, "words", text="a")
        await ask(executor, "crash")
        await asyncio.gather(*(ask(executor, "words", text="a") for _ in range(3)))
    assert _jails() <= before[0] and set(os.listdir("/proc/self/fd")) <= before[1]


async def test_jails_of_modules_long_unused_make_room_for_others(tmp_path: Path) -> None:
    shown = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        shown.append(tools.words.changed(name=f"words{number}", sandbox=SandboxAccess(read=(tmp_path / str(number),))))
    before = _jails()
    async with SandboxPool(modules=2) as pool:

        async def run(each: Tool) -> None:
            invocation = Invocation(ToolCall("c", each.name), {"text": "a"}, Context())
            assert (await pool.run(each, invocation, {"text": "a"}, 30)).output == {"a": 1}

        await asyncio.gather(*map(run, shown[:3]))
        jails = _jails() - before
        await run(shown[3])
        endings = asyncio.as_completed([ended(pid) for pid in jails], timeout=60)
        for _ in range(2):
            await next(endings)
        left = _jails() - before
        assert (len(left), len(left & jails)) == (2, 1)
    await next(endings)


async def test_of_many_calls_at_once_those_that_wait_take_the_workers_that_come_free() -> None:
    reads = tools.remember.changed(side_effects=False, sandbox=SandboxAccess())
    async with Executor([reads], policy=Policy(concurrency=30)) as executor:
        kept = await asyncio.gather(*(ask(executor, "remember", word=str(number)) for number in range(30)))
    first = [result for result in kept if len(result.content) == 1]
    assert len(first) < 30


async def test_a_worker_that_does_not_come_up_says_why_and_that_nothing_ran(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    reads = tools.read.changed(sandbox=SandboxAccess(read=(tmp_path / "data",), reuse=False))
    async with Executor([reads]) as executor:
        await ask(executor, "read", path="/none")
        (tmp_path / "data").rmdir()
        result = await ask(executor, "read", path="/none")
    assert result.error is not None
    assert result.error.code == "worker_lost"
    assert "did not run: its worker did not come up: bwrap: Can't find source path" in result.text


# What is refused before anything runs.


async def test_without_a_sandbox_the_tool_is_not_taken_in_and_nothing_weaker_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox_pool, "unavailable", lambda: "bubblewrap was not found; apt install bubblewrap")
    with pytest.raises(SandboxUnavailable, match=r"'words'.*apt install bubblewrap"):
        Executor([tools.words])
    async with Executor([]) as executor:
        with pytest.raises(SandboxUnavailable):
            executor.include(tools.words)


async def test_what_is_named_and_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidDefinition, match="which is not there"):
        Executor([tools.read.changed(sandbox=SandboxAccess(read=(tmp_path / "none",)))])


@pytest.mark.parametrize("name", ["handrail.toml", ".handrail", ".git", ".env"])
async def test_a_package_that_holds_something_private_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = tmp_path / f"private_{name.strip('.').replace('.', '_')}"
    package.mkdir()
    (package / name).touch()
    (package / "__init__.py").write_text(LONELY)
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__(package.name)
    with pytest.raises(InvalidDefinition, match=name):
        Executor([module.look])
    del sys.modules[package.name]


# Programs of their own.


async def ran(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(text)
    run = partial(subprocess.run, cwd=folder, capture_output=True, text=True, timeout=60)
    return await asyncio.to_thread(run, [sys.executable, "program.py"])


async def test_a_tool_of_the_main_file_works(tmp_path: Path) -> None:
    done = await ran(tmp_path, PROGRAM + "if __name__ == '__main__':\n    asyncio.run(main())\n")
    assert (done.stdout, done.stderr) == ("7\n", "")


async def test_a_main_file_without_a_guard_is_told_to_have_one(tmp_path: Path) -> None:
    done = await ran(tmp_path, PROGRAM + "asyncio.run(main())\n")
    assert "if __name__ == '__main__'" in done.stdout


async def test_a_jail_goes_when_its_host_is_killed(tmp_path: Path) -> None:
    (tmp_path / "host.py").write_text(HOST)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    host = await asyncio.create_subprocess_exec(
        sys.executable, "host.py", cwd=tmp_path, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    async with asyncio.timeout(60):
        jail = int(await host.stdout.readline())
        with Watched(jail) as watched:
            host.kill()
            await watched.end()
        await host.communicate()


def _jails() -> set[int]:
    """The children of this process that are bubblewrap."""
    return {pid for pid in children() if _program(pid) == "bwrap\n"}


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return ""


LONELY = """
import os
from handrail import tool

@tool(isolation="sandbox")
def look(folder: str) -> list[str]:
    return sorted(os.listdir(folder))

@tool(isolation="sandbox")
def helped() -> str:
    import helper
    return helper.WORD
"""

PROGRAM = """
from __future__ import annotations
import asyncio
from handrail import Executor, ToolCall, tool

@tool(isolation="sandbox")
def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    async with Executor([add]) as executor:
        print((await executor.invoke(ToolCall("", "add", {"a": 3, "b": 4}))).text)

"""

HOST = """
import asyncio
from pathlib import Path
from handrail import Executor, ToolCall
from handrail.core.events import CallProgress
from tests.execute.isolation.sandboxed_tools import hang
from tests.execute.test_sandbox_pool import _jails

async def emit(event):
    if isinstance(event, CallProgress):
        print(*_jails(), flush=True)

async def main():
    async with Executor([hang]) as executor:
        await executor.invoke(ToolCall("", "hang", {"how": "interpreter"}), emit=emit)

asyncio.run(main())
"""
