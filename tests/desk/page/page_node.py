"""A house: a folder with a configuration, tools and a scripted model, and the node that serves its page.

Everything is real but the model. The node runs in a thread with a loop of its own, so that tests can be plain
functions that drive a browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from handrail.app.app import AppAdditions
from handrail.app.network_node import NetworkNode
from handrail.app.person import Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.desk.service.desk_service import open_desk_node
from handrail.node.server.serving import serve

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds after which something that should happen does not."""
HOSTILE = (
    "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 2'>\x1b[2J\x1b]8;;http://evil.example\x07"
    "click\x1b]8;;\x07 \u202egpj.exe\u202c zero\u200bwidth \x00\x9b31m [link](javascript:alert(1)) ![p](http://x/y.png)"
)
"""What a tool of the house gives that means no good."""
WORD = "correct-horse-battery"
"""The password that a call of the house carries: it must be seen nowhere."""

_CONFIG = """\
default_model = "scripted"
ensembles = ["notes.toml", "odd.toml"]

[models.scripted]
provider = "scripted"
model = "replies.json"

[models.other]
provider = "scripted"
model = "other.json"

[services]
llm = false
blobs = false
rag = false
trans = false
market = false
chat = false
img = false
stt = false
"""
_NOTES = """\
[ensemble]
name = "notes"

[[invokers]]
name = "read_note"
python = "{module}:read_note"

[[invokers]]
name = "write_note"
python = "{module}:write_note"
"""
_ODD = """\
[ensemble]
name = "odd"

[[invokers]]
name = "fail"
python = "{module}:fail"

[[invokers]]
name = "long_job"
python = "{module}:long_job"

[[invokers]]
name = "hostile"
python = "{module}:hostile"

[[invokers]]
name = "huge"
python = "{module}:huge"

[[invokers]]
name = "sign_in"
python = "{module}:sign_in"
"""
_TOOLS = '''\
"""The tools of a house."""

import asyncio
from pathlib import Path

from handrail import Invocation, ToolError, tool
from handrail.core.redact import Secret

FOLDER = Path(__file__).parent / "kept"


@tool(side_effects=False)
async def read_note(path: str) -> str:
    """Read a note.

    Args:
        path: Which one, as shopping.txt.
    """
    return (FOLDER / path).read_text(encoding="utf-8")


@tool(side_effects=True)
async def write_note(path: str, text: str) -> str:
    """Write a note. What was there before is gone.

    Args:
        path: Where to, as shopping.txt.
        text: All of it.
    """
    (FOLDER / path).write_text(text, encoding="utf-8")
    return f"wrote {{len(text)}} characters to {{path}}"


@tool(side_effects=False)
async def fail(why: str) -> str:
    """Fail, and say why."""
    raise ToolError("NO_LUCK", why)


@tool(side_effects=False, timeout=120)
async def long_job(invocation: Invocation, steps: int = 3) -> str:
    """Work in steps, each when the house says so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", {gate})
    try:
        for step in range(steps):
            invocation.progress(step, steps, f"step {{step + 1}} of {{steps}}")
            if not await reader.readline():
                raise ToolError("GATE_SHUT", "the house let go of the job")
        return f"did {{steps}} steps"
    finally:
        writer.close()


@tool(side_effects=False)
async def hostile() -> str:
    """Give a text that means no good."""
    return {hostile!r}


@tool(side_effects=False, max_output=2_000_000)
async def huge() -> str:
    """Give a megabyte."""
    return "\\n".join(f"line {{n:06}} of a very long answer" for n in range(30_000)) + "the end"


@tool(side_effects=True)
async def sign_in(user: str, password: Secret) -> str:
    """Sign in somewhere."""
    return f"{{user}} is signed in"
'''


class LongJobGate:
    """Where `long_job` waits. A job comes here by a socket, so that it can be cancelled while it waits."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self._job: socket.socket | None = None
        self.port: int = self._listener.getsockname()[1]

    def wait(self) -> None:
        """Until the next job is there."""
        self._let_go()
        self._job, _ = self._listener.accept()
        self._job.settimeout(PATIENCE)

    def step(self, count: int = 1) -> None:
        """Let the job go on for so many steps."""
        if self._job is None:
            self.wait()
        assert self._job is not None
        self._job.sendall(b"\n" * count)

    def gone(self) -> None:
        """Wait until the job has left: it ended, or was cancelled."""
        assert self._job is not None
        assert self._job.recv(1) == b""

    def close(self) -> None:
        self._let_go()
        self._listener.close()

    def _let_go(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None


class ThreadedNode:
    """A node that serves in a thread of its own."""

    def __init__(self, house: PageNode, port: int) -> None:
        self._house = house
        self._port = port
        self._ready: Future[tuple[str, str]] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.opened: NetworkNode | None = None
        self._thread = threading.Thread(target=self._run, name="house")
        self._thread.start()
        try:
            self.url, self.token = self._ready.result(PATIENCE)
        except BaseException:
            self.stop()
            raise

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def token_for(self, *capabilities: str) -> str:
        """A token that is good for less."""
        return self.ask(lambda opened: str(opened.session_token(*capabilities)))

    def ask(self, question: Callable[[NetworkNode], T]) -> T:
        """What a function makes of the node, in its own thread."""
        answer: Future[T] = Future()

        def put() -> None:
            assert self.opened is not None
            try:
                answer.set_result(question(self.opened))
            except Exception as error:
                answer.set_exception(error)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(put)
        return answer.result(PATIENCE)

    def stop(self) -> None:
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the node does not end"

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        house = self._house
        config = load_config(house.config)
        async with open_desk_node(config, house.journal, house.wanted, house.person, look=0.05) as opened:
            self.opened = opened

            def ready(url: str) -> None:
                self._ready.set_result((url, str(opened.session_token())))

            await serve(opened.server(), port=self._port, ready=ready)


class PageNode:
    """The folder, and the node while it serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "handrail.toml"
        self.journal = folder / ".handrail" / "journal.db"
        self.kept = folder / "kept"
        """Where its notes are."""
        self.approvals = Approvals(folder / "state")
        self.person = Person(by="ada", approvals=self.approvals, tell=lambda line: None)
        self.wanted = AppAdditions()
        self.gate = LongJobGate()
        self.node: ThreadedNode | None = None
        self._replies: list[dict[str, Any]] = []
        self._furnish()

    @property
    def url(self) -> str:
        """Where it serves."""
        assert self.node is not None, "serve it first"
        return self.node.url

    @property
    def token(self) -> str:
        """For everything."""
        assert self.node is not None, "serve it first"
        return self.node.token

    def reply(self, when: str, *replies: dict[str, Any] | str) -> None:
        """What the model says, one after the other, to a question with these words: a text, or `text` and `calls`.

        Say it before the conversation begins: a model reads its script once.
        """
        said = [{"text": each} if isinstance(each, str) else each for each in replies]
        self._replies += [{"when": when, **each} for each in said]
        self._write("replies.json", {"reply": self._replies})

    @contextmanager
    def serve(self) -> Iterator[PageNode]:
        """Serve while the block runs."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Serve, at the same port as before if there was one."""
        port = 0 if self.node is None else self.node.port
        self.node = ThreadedNode(self, port)

    def stop(self) -> None:
        if self.node is not None:
            self.node.stop()

    def restart(self) -> None:
        """As if somebody had ended it and started it again. Tokens from before are still good."""
        self.stop()
        self.start()

    def close(self) -> None:
        self.gate.close()
        sys.modules.pop(self._module, None)
        with suppress(ValueError):
            sys.path.remove(str(self.folder))

    def _furnish(self) -> None:
        self._module = f"house_{hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]}"
        self.kept.mkdir(parents=True)
        (self.kept / "shopping.txt").write_text("bread, milk and tea", encoding="utf-8")
        tools = _TOOLS.format(gate=self.gate.port, hostile=HOSTILE)
        (self.folder / f"{self._module}.py").write_text(tools, encoding="utf-8")
        (self.folder / "notes.toml").write_text(_NOTES.format(module=self._module), encoding="utf-8")
        (self.folder / "odd.toml").write_text(_ODD.format(module=self._module), encoding="utf-8")
        self.config.write_text(_CONFIG, encoding="utf-8")
        self._write("other.json", {"reply": [{"when": "", "text": "I am the other model."}], "name": "other"})
        self.reply("hello", "Hello! What shall we do?")
        self.reply("read the note", _calls("read_note", path="shopping.txt"), "You need bread, milk and tea.")
        self.reply("write the note", _calls("write_note", path="plan.txt", text="rest"), "It is written.")
        self.reply("fail", _calls("fail", why="the printer is on fire"), "It did not work.")
        self.reply("work", _calls("long_job", steps=3), "The work is done.")
        self.reply("hostile", _calls("hostile"), "That was odd.")
        self.reply("huge", _calls("huge"), "That was long.")
        self.reply("sign in", _calls("sign_in", user="ada", password=WORD), "You are in.")
        self.reply("break", {"error": "model_unavailable", "text": "the service is away"})

    def _write(self, name: str, script: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps(script), encoding="utf-8")


def _calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "One moment. ", "calls": [{"name": name, "arguments": arguments}]}
