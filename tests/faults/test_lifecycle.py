"""The life of a run under fire, by the numbers of the fault list: 21 cancel, 22 crash, 24 two at once, 25 versions.

Case 23, the disks, is in `test_disks.py`. Servers, processes, terminals and files are real.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from handrail import Context, Conversation, Executor, Policy, Session, Tool, tool
from handrail.core.errors import JournalError, LeaseHeld
from handrail.core.events import CallAmended, CallIntended, CallSettled, Event, TextDelta
from handrail.core.messages import InvocationMessage, ResultMessage
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader
from handrail.run.history import conversation_of
from handrail.run.runner import Runner
from handrail.sessions.create import create_llm
from handrail.sessions.llm import LLM
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.approved import approve
from tests.cli.journal_fixtures import command, environment
from tests.faults import stuck_tools
from tests.models.openai_chat.streams import chunk
from tests.models.raw_reply_server import HOLD, RawReplyServer, Reply, serving, sse, streamed

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60
FREE = Policy(confirm_side_effects=False)
RUN = Context(run="run-1")


# ── 21: cancel in flight ─────────────────────────────────────────────────────────────────


def served(server: RawReplyServer) -> LLM:
    return create_llm("openai:m", key="k", base_url=server.url)


@pytest.mark.parametrize(
    "reply", [[HOLD], streamed(sse(chunk({"content": "Hel"})), HOLD)], ids=["before the reply", "in mid-reply"]
)
async def test_21_cancelling_a_task_closes_the_connection_to_the_model(reply: Reply) -> None:
    async with asyncio.timeout(PATIENCE), serving(reply) as server, served(server) as llm, Session(llm) as session:
        asking = asyncio.create_task(session.ask_async("hi"))
        await server.holding.wait()
        asking.cancel()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.hung_up.wait()


async def test_21_a_client_that_leaves_the_stream_closes_the_connection_to_the_model() -> None:
    reply = streamed(sse(chunk({"content": "Hel"})), HOLD)
    async with asyncio.timeout(PATIENCE), serving(reply) as server, served(server) as llm, Session(llm) as session:
        async with aclosing(session.stream_async("hi")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await server.hung_up.wait()


class Cancelled:
    """A run whose one call was cancelled while it was under way, and what was left."""

    def __init__(self, made: Tool) -> None:
        self.journal = MemoryJournal()
        self.executor = Executor([made], journal=self.journal, policy=FREE)
        self.said = Conversation().say("go")
        self.context = RUN
        self.amended = asyncio.Event()
        self._name = made.name

    async def run(self, arguments: dict[str, Any], under_way: Callable[[], Any], times: int) -> None:
        model = ScriptedModel([call(self._name, "call-1", **arguments)])
        runner = Runner(model, self.executor)
        running = asyncio.create_task(runner.run(self.said, self.context, self._emit, follow=self._follow))
        await asyncio.to_thread(under_way)
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)  # only lets the cancellation arrive
        with pytest.raises(asyncio.CancelledError):
            await running

    async def _emit(self, event: Event) -> None:
        if isinstance(event, CallAmended):
            self.amended.set()

    def _follow(self, said: Conversation) -> None:
        self.said = said

    @property
    def results(self) -> list[str]:
        return [each.result.outcome for each in self.said.messages if isinstance(each, ResultMessage)]

    def recorded(self, kind: type) -> list[Any]:
        return [event for event in self.journal.events if isinstance(event, kind)]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("made", [stuck_tools.in_the_loop, stuck_tools.in_a_process], ids=lambda made: str(made.name))
async def test_21_cancelling_stops_the_tool_and_is_recorded_once_however_often_it_is_asked(
    tmp_path: Path, made: Tool, times: int
) -> None:
    os.mkfifo(tmp_path / "pipe")
    scene = Cancelled(made)
    async with asyncio.timeout(PATIENCE), scene.executor:
        end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(end, True)
        reading = os.fdopen(end, "rb", buffering=0)
        first = threading.Event()

        def wait_for_it() -> None:
            while not reading.read(64):  # nobody has opened the other end yet
                first.wait(0.01)

        await scene.run({"pipe": str(tmp_path / "pipe")}, wait_for_it, times)
        # The tool had the other end open. What follows its last byte is the end: it has stopped.
        assert await asyncio.to_thread(reading.read) == b""
        reading.close()

    assert [event.outcome for event in scene.recorded(CallSettled)] == ["cancelled"]
    assert len(scene.recorded(CallIntended)) == 1
    assert scene.results == ["cancelled"]
    if times == 1:  # who asks again does not wait for a process to end, and cannot know that it has
        assert [event.result.still_running for event in scene.recorded(CallSettled)] == [False]


@pytest.mark.parametrize("times", [1, 2])
async def test_21_a_thread_that_cannot_be_stopped_is_said_to_go_on_and_its_end_is_noted(times: int) -> None:
    under_way, release = threading.Event(), threading.Event()
    effects: list[str] = []

    @tool(side_effects=True)
    def slow() -> str:
        under_way.set()
        release.wait(PATIENCE)
        effects.append("paid")
        return "paid"

    scene = Cancelled(slow)
    async with asyncio.timeout(PATIENCE), scene.executor:
        await scene.run({}, under_way.wait, times)
        (settled,) = scene.recorded(CallSettled)
        assert (settled.outcome, settled.result.still_running, scene.results) == ("cancelled", True, ["cancelled"])
        assert "may yet take effect" in settled.result.text
        release.set()
        await scene.amended.wait()
        again = await Runner(ScriptedModel([text("I see.")]), scene.executor).run(scene.said, scene.context)

    assert [(each.outcome, each.why) for each in scene.recorded(CallAmended)] == [("ok", "late")]
    assert (effects, again.text, len(scene.recorded(CallIntended))) == (["paid"], "I see.", 1)


CONFIG = """
default_model = "served"

[models.served]
provider = "openai"
model = "m"
key = "env:SOME_KEY"
base_url = "{url}"
"""


def take_terminal() -> None:
    """Make the terminal on stdin the controlling one, so that its Ctrl-C is a signal to us."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def on_terminal(terminal: int, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("ask", "hi"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env=environment(SOME_KEY="k", TERM="dumb"),
        start_new_session=True,
        preexec_fn=take_terminal,
    )


@pytest.mark.parametrize("times", [1, 2])
async def test_21_ctrl_c_in_a_terminal_hangs_up_on_the_model_and_says_how_to_go_on(tmp_path: Path, times: int) -> None:
    ours, theirs = pty.openpty()
    reply = streamed(sse(chunk({"content": "Hel"})), HOLD)
    async with asyncio.timeout(PATIENCE), serving(reply) as server:
        (tmp_path / "handrail.toml").write_text(CONFIG.format(url=server.url))
        approve(tmp_path / "handrail.toml")
        process = on_terminal(theirs, tmp_path)
        os.close(theirs)
        await server.holding.wait()
        os.write(ours, b"\x03" * times)
        shown = await asyncio.to_thread(read_all, ours)
        code = await asyncio.to_thread(process.wait, PATIENCE)
        await server.hung_up.wait()
    os.close(ours)

    assert (code, "Traceback" in shown) == (130, False)
    assert "resume it with: handrail resume run_" in shown
    assert audit(tmp_path / ".handrail" / "journal.db").ok


def read_all(terminal: int) -> str:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # what Linux says when the other end is closed
            piece = b""
        if not piece:
            return shown.decode()
        shown += piece


# ── 22: a crash between the effect and its result ────────────────────────────────────────


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    asked = [sys.executable, "-m", "tests.faults.killed_payment", str(tmp_path_factory.mktemp("killed"))]
    out = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    return {told["kind"]: told for told in map(json.loads, out.stdout.splitlines())}


@pytest.mark.parametrize(
    ("kind", "outcome", "words", "effects"),
    [
        ("plain", "in_doubt", "do not repeat it", 1),
        ("idempotent", "ok", "paid", 2),
        ("reconciled", "ok", "paid, as the bank says", 1),
        ("reconciled as not done", "ok", "paid", 1),
    ],
)
def test_22_what_the_dead_process_began_is_decided_by_its_tool_and_never_silently_repeated(
    killed: dict[str, dict[str, Any]], kind: str, outcome: str, words: str, effects: int
) -> None:
    told = killed[kind]

    (result, said) = told["told"]
    assert (told["died"], told["went on"], told["problems"]) == (True, True, [])
    assert (result[0], words in result[1], said) == (outcome, True, ["said", "Done."])
    assert len(told["effects"]) == effects
    assert len({key for _, key in told["effects"]}) == 1, "an effect that runs again has the key that it had"


async def answered(folder: Path) -> None:
    """A run that dies after its answer is on record, and before its end is."""
    (folder / ".handrail").mkdir()
    async with await SqliteJournal.open(folder / ".handrail" / "journal.db") as journal:
        executor = Executor([], journal=journal)
        await Runner(ScriptedModel([text("It is 3.")]), executor).run(Conversation().say("1 + 2?"), RUN)
        await executor.aclose()


def test_22_a_run_that_died_after_its_answer_is_ended_and_the_model_not_asked_again(tmp_path: Path) -> None:
    asyncio.run(answered(tmp_path))
    (tmp_path / "silent.toml").write_text("reply = []\n")
    asked = command("resume", RUN.run or "", "-m", "scripted:silent.toml")

    first, second = (
        subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        for _ in range(2)
    )

    assert (first.stdout, second.stdout) == ("It is 3.\n", "It is 3.\n")
    assert "has ended (done)" in second.stderr


# ── 24: two processes, one run ───────────────────────────────────────────────────────────

TOOLS = '''
import os
from handrail import tool

if os.environ.get("GATE") == "import":
    open("gate").read()


@tool(side_effects=True)
def pay(amount: int) -> str:
    """Pay."""
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\\n")
    if os.environ.get("GATE") == "pay":
        open("gate").read()
    return "paid"
'''
SCRIPT = """
[[reply]]
calls = [{ name = "pay", arguments = { amount = 5 } }]

[[reply]]
text = "Paid."
"""
WITH = ("--tools", "gate_tools.py", "--yes")


class Desk:
    """A folder with a run that was cut off before its first reply, and commands that take it up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "gate_tools.py").write_text(TOOLS)
        (folder / "script.toml").write_text(SCRIPT)
        (folder / "silent.toml").write_text("reply = []\n")
        os.mkfifo(folder / "gate")
        self.end(self.start("ask", "-m", "scripted:silent.toml", *WITH, "pay her"))

    def resume(self, gate: str = "") -> subprocess.Popen[str]:
        return self.start("resume", "run_", "-m", "scripted:script.toml", *WITH, gate=gate)

    def start(self, *words: str, gate: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*words),
            cwd=self._folder,
            env=environment(GATE=gate),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_at_gate(self) -> int:
        """Until somebody stands there; closing what this returns lets them pass."""
        return os.open(self._folder / "gate", os.O_WRONLY)

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, told = process.communicate(timeout=PATIENCE)
        return process.returncode, out, told

    @property
    def paid(self) -> list[str]:
        file = self._folder / "paid.txt"
        return file.read_text().split() if file.exists() else []

    @property
    def journal(self) -> Path:
        return self._folder / ".handrail" / "journal.db"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_24_the_second_who_takes_up_a_run_is_told_who_has_it_and_does_nothing(desk: Desk) -> None:
    holder = desk.resume(gate="pay")
    gate = desk.wait_at_gate()
    late = desk.end(desk.resume())
    os.close(gate)
    held = desk.end(holder)

    assert (late[:2], late[2].count("\n"), f"in use by process {holder.pid}" in late[2]) == ((1, ""), 1, True)
    assert (held[:2], desk.paid, audit(desk.journal).ok) == ((0, "Paid.\n"), ["5"], True)


def test_24_a_killed_holder_leaves_the_run_free_at_once_and_its_payment_in_doubt(desk: Desk) -> None:
    holder = desk.resume(gate="pay")
    gate = desk.wait_at_gate()
    holder.send_signal(signal.SIGKILL)
    desk.end(holder)
    os.close(gate)
    code, out, told = desk.end(desk.resume())

    assert (code, out, desk.paid) == (0, "Paid.\n", ["5"])
    assert "← pay in_doubt" in told


def test_24_who_looked_before_another_went_on_does_not_go_on_from_what_it_saw(desk: Desk) -> None:
    slow = desk.resume(gate="import")  # it has read the record, and has not taken the lease
    gate = desk.wait_at_gate()
    quick = desk.end(desk.resume())
    os.close(gate)
    code, out, told = desk.end(slow)
    again = desk.end(desk.resume())

    assert (quick[:2], desk.paid) == ((0, "Paid.\n"), ["5"])
    assert (code, out, told.count("\n"), "was continued by another process" in told) == (1, "", 1, True)
    assert again[:2] == (0, "Paid.\n")


async def test_24_one_executor_at_a_time_has_a_run_and_the_other_is_told(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        one, two = (Executor([stuck_tools.in_the_loop], journal=journal, policy=FREE) for _ in range(2))
        async with one, two:
            asked = [Runner(ScriptedModel([text("hi")]), each) for each in (one, two)]
            runs = (each.run(Conversation().say("hello"), RUN) for each in asked)
            answers = await asyncio.gather(*runs, return_exceptions=True)

    assert Counter(type(each) for each in answers) == {Conversation: 1, LeaseHeld: 1}


async def test_24_a_run_can_be_let_go_of_when_the_folder_of_the_leases_is_gone(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        held = await journal.lease("run-1")
        shutil.rmtree(tmp_path / "journal.db.leases")
        with pytest.raises(LeaseHeld):
            await journal.lease("run-1")
        held.release()
        (await journal.lease("run-1")).release()


# ── 25: journals of other versions ───────────────────────────────────────────────────────

OLD = Path(__file__).parent / "journal-format-1.sql"
"""A journal as format 1 was first released: one run that waits in the middle of its calls. Never to be written anew."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
    (tmp_path / "journal.key").write_text((OLD.with_suffix(".key")).read_text())
    (tmp_path / "journal.key").chmod(0o600)
    return path


async def test_25_an_old_journal_verifies_and_its_run_goes_on_with_the_code_of_today(old: Path) -> None:
    assert audit(old).ok

    paid: list[int] = []

    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    async with await SqliteJournal.open(old) as journal, Executor([pay], journal=journal, policy=FREE) as executor:
        said = conversation_of(await journal.history("run-old"))
        said = await Runner(ScriptedModel([text("Done.")]), executor).run(said, Context(run="run-old"))

    calls = [each.id for each in said.messages if isinstance(each, InvocationMessage)]
    results = {each.invocation_id: each.result.outcome for each in said.messages if isinstance(each, ResultMessage)}
    assert (calls, results) == (
        ["call-paid", "call-doubtful", "call-new"],
        {"call-paid": "ok", "call-doubtful": "in_doubt", "call-new": "ok"},
    )
    assert (paid, said.text, audit(old).ok) == ([3], "Done.", True)


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    return ((each.name, each.read_bytes()) for each in sorted(folder.iterdir()) if each.is_file())


@pytest.mark.parametrize(
    ("version", "way_out"), [("2", "upgrade handrail"), ("0", "the handrail that wrote it"), ("", "upgrade handrail")]
)
async def test_25_a_journal_of_another_format_is_refused_in_words_and_not_touched(
    old: Path, version: str, way_out: str
) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (version,))
    before = list(files(old.parent))

    with pytest.raises(JournalError, match=way_out):
        await SqliteJournal.open(old)
    with pytest.raises(JournalError, match=way_out):
        JournalReader(old)

    assert list(files(old.parent)) == before


@pytest.mark.parametrize("change", [('"v":1', '"v":2'), ('"type":"run.started"', '"type":"run.dreamt"')])
async def test_25_an_entry_that_a_later_version_wrote_is_refused_in_words(old: Path, change: tuple[str, str]) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        (leaf,) = connection.execute("SELECT leaf FROM entry WHERE seq = 0").fetchone()
        newer = leaf.decode().replace(*change).encode()
        assert newer != leaf
        connection.execute("UPDATE entry SET leaf = ? WHERE seq = 0", (newer,))

    async with await SqliteJournal.open(old) as journal, Executor([], journal=journal) as executor:
        with pytest.raises(JournalError, match="upgrade handrail"):
            await Runner(ScriptedModel(), executor).run(Conversation().say("hi"), Context(run="run-old"))
