"""Every way in which a person is asked about a call, with the same few things that a person can do at each."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import sys
import tty
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import mcp_types as types
import pytest
from textual.widgets import TextArea

from handrail import Context, Executor, Secret, ToolCall, ToolResult, tool
from handrail.cli.rlm.live_display import DisplayPausingApprover, RlmLiveDisplay
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.core.ports import Approver
from handrail.desk.questions import PendingQuestions
from handrail.desk.tui.json_editor import JsonEditor
from handrail.desk.values import DeskQuestion
from handrail.execute.rules import Rules
from handrail.execute.terminal.approver import TerminalApprover
from handrail.journal.journal import SqliteJournal
from handrail.journal.person_answers import answer
from handrail.journal.reader import JournalReader
from handrail.mcp.server.results import OUTCOME_KEY
from handrail.node.chat.confirmations import Confirmations, allow_confirmation, decline_confirmation
from handrail.testing.journal import MemoryJournal
from handrail.tools.registry import registered
from tests.cli.journal_fixtures import run as command
from tests.desk.tui.scripted_terminal import ScriptedTerminal, terminal
from tests.mcp.server.server_setup import LEGACY, MODERN, scene
from tests.polling import until_asked
from tests.replies import calls

RUN = Context(run="run_1")
SECRET = "correct horse battery"
Arguments = dict[str, Any]


class Login(TypedDict):
    user: str
    password: Secret


class ApprovalSurface(ABC):
    """A place where a person is asked, and a call of the tool `act` that waits there."""

    can_edit = True
    can_defer = True

    def __init__(self) -> None:
        self.ran: list[Arguments] = []

        @tool(side_effects=True)
        async def act(command: str, login: Login, note: str = "") -> str:
            """Run a command as somebody."""
            self.ran.append({"command": command, "login": {key: str(value) for key, value in login.items()}})
            return "done"

        self.tools = registered(act)

    @abstractmethod
    async def ask(self, arguments: Arguments) -> None:
        """Have the call made. It returns when the person has the question before them."""

    @abstractmethod
    async def shown(self) -> str:
        """The question as the person reads it."""

    @abstractmethod
    async def allow(self) -> None: ...

    @abstractmethod
    async def deny(self) -> None: ...

    async def later(self) -> None:
        raise NotImplementedError

    async def edit(self, change: Callable[[str], str]) -> str:
        """Change the JSON that is shown, and take it; what is said against it, if it is not taken."""
        raise NotImplementedError

    @abstractmethod
    async def elsewhere(self, decision: str) -> None:
        """Somebody else answers the same question."""

    @abstractmethod
    async def outcome(self) -> str: ...

    @abstractmethod
    async def answers(self) -> list[ConfirmationAnswered]: ...


class InProcess(ApprovalSurface):
    """An approver that an executor asks, with a journal in memory."""

    def __init__(self, stack: AsyncExitStack) -> None:
        super().__init__()
        self._stack = stack
        self.journal = MemoryJournal()
        self._call: asyncio.Task[ToolResult] | None = None

    async def begin(self, approver: Approver, arguments: Arguments) -> None:
        executor = await self._stack.enter_async_context(Executor(self.tools, approver=approver, journal=self.journal))
        self._call = asyncio.create_task(executor.invoke(ToolCall("call_1", "act", arguments), RUN))

    async def elsewhere(self, decision: str) -> None:
        (asked,) = [each for each in self.journal.events if isinstance(each, ConfirmationRequested)]
        await self.journal.answer(asked.answered("allow" if decision == "allow" else "deny", at=1, by="grace"))

    async def outcome(self) -> str:
        assert self._call is not None
        async with asyncio.timeout(30):
            return (await self._call).outcome

    async def answers(self) -> list[ConfirmationAnswered]:
        return [each for each in self.journal.events if isinstance(each, ConfirmationAnswered)]


class RecordedScreen(io.StringIO):
    """What a program writes, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def until(self, text: str, start: int = 0) -> None:
        async with asyncio.timeout(30):
            while text not in self.getvalue()[start:]:
                self._written.clear()
                await self._written.wait()


class AtTerminal(InProcess):
    """`handrail chat`, `ask` and `tools call`."""

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch) -> None:
        super().__init__(stack)
        self._keys, reading = pty.openpty()
        tty.setraw(reading)  # neither echo nor a longest line
        self._keyboard = stack.enter_context(os.fdopen(reading))
        stack.callback(os.close, self._keys)
        self.screen = RecordedScreen()
        self._patch = patch
        for name in ("VISUAL", "EDITOR"):
            patch.delenv(name, raising=False)

    def approver(self) -> Approver:
        return TerminalApprover(by="ada", tools=self.tools)

    async def ask(self, arguments: Arguments) -> None:
        self._patch.setattr(sys, "stdin", self._keyboard)  # pytest has put its own there since the fixture was made
        self._patch.setattr(sys, "stderr", self.screen)
        await self.begin(self.approver(), arguments)
        await self.screen.until("Allow it?")

    async def shown(self) -> str:
        return self.screen.getvalue()

    def _type(self, text: str) -> None:
        os.write(self._keys, f"{text}\n".encode())

    async def allow(self) -> None:
        self._type("y")

    async def deny(self) -> None:
        self._type("n")
        await self.screen.until("Why?")
        self._type("no")

    async def later(self) -> None:
        self._type("l")

    async def edit(self, change: Callable[[str], str]) -> str:
        text = self.screen.getvalue()
        shown = text.partition("arguments:\n")[2].partition("Allow it?")[0]
        self._type("e")
        await self.screen.until("on one line:")
        start = len(self.screen.getvalue())
        self._type(change(shown).replace("\n", " "))
        assert self._call is not None
        again = asyncio.create_task(self.screen.until("Allow it?", start))
        await asyncio.wait((again, self._call), return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        return self.screen.getvalue()[start:]


class BehindRules(AtTerminal):
    """Standing rules, of which none covers the call."""

    def approver(self) -> Approver:
        return Rules(["allow other", "allow act command=nothing", "deny act command=nothing"], super().approver())


class InRlm(AtTerminal):
    """`handrail rlm`."""

    def approver(self) -> Approver:
        return DisplayPausingApprover(super().approver(), RlmLiveDisplay(as_json=False, terminal=False))


class AtDesk(InProcess):
    """What the page is told, and what it sends."""

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch) -> None:
        super().__init__(stack)
        self._asking = PendingQuestions("ada")
        self._told: asyncio.Queue[DeskQuestion] = asyncio.Queue()
        self._question: DeskQuestion | None = None

    def _heard(self, kind: str, data: Any) -> None:
        if kind == "question":
            self._told.put_nowait(data)

    async def ask(self, arguments: Arguments) -> None:
        self._stack.enter_context(self._asking.attend("run_1", "talk_1", self._heard))
        await self.begin(self._asking.knowing(self.tools), arguments)
        async with asyncio.timeout(30):
            self._question = await self._told.get()

    @property
    def question(self) -> DeskQuestion:
        assert self._question is not None
        return self._question

    async def shown(self) -> str:
        return self.question.written

    async def allow(self) -> None:
        self._asking.answer(self.question.request, self._asking.word(self.question.request, "allow"), "allow")

    async def deny(self) -> None:
        self._asking.answer(self.question.request, self._asking.word(self.question.request, "deny"), "deny")

    async def later(self) -> None:
        self._asking.answer(self.question.request, self._asking.word(self.question.request, "later"), "later")

    async def edit(self, change: Callable[[str], str]) -> str:
        try:
            word = self._asking.word(self.question.request, "edit", arguments=change(self.question.written))
        except UsageError as error:
            return str(error)
        self._asking.answer(self.question.request, word, "edit")
        return ""


class OnBus(InProcess):
    """The frames of a chat over the bus."""

    can_edit = can_defer = False

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch) -> None:
        super().__init__(stack)
        self._confirmations = Confirmations(None, None)
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._frame: dict[str, Any] = {}

    async def _send(self, kind: str, frame: dict[str, Any]) -> None:
        self._frames.put_nowait(frame)

    async def ask(self, arguments: Arguments) -> None:
        self._stack.enter_context(self._confirmations.chat("run_1", self._send))
        await self.begin(self._confirmations, arguments)
        async with asyncio.timeout(30):
            self._frame = await self._frames.get()

    async def shown(self) -> str:
        return json.dumps(self._frame["arguments"])  # a program reads it

    async def allow(self) -> None:
        (question,) = self._confirmations.of("call_1")
        assert question.is_about(self._frame["arguments"])
        assert allow_confirmation(question)

    async def deny(self) -> None:
        (question,) = self._confirmations.of("call_1")
        assert decline_confirmation(question, "no")


class AtMcpClient(InProcess):
    """A client of our MCP server that shows a form in the middle of the call."""

    can_edit = False
    era = LEGACY

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch) -> None:
        super().__init__(stack)
        self._forms: asyncio.Queue[str] = asyncio.Queue()
        self._form = ""
        self._said: asyncio.Future[types.ElicitResult] = asyncio.get_running_loop().create_future()
        self._client_call: asyncio.Task[Any] | None = None

    async def _elicited(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self._forms.put_nowait(params.message)
        return await self._said

    async def ask(self, arguments: Arguments) -> None:
        served = scene(*self.tools, journal=self.journal)
        client = await self._stack.enter_async_context(served.client(self.era, elicitation_callback=self._elicited))
        self._client_call = asyncio.create_task(client.call_tool("act", arguments))
        async with asyncio.timeout(30):
            self._form = await self._forms.get()

    async def shown(self) -> str:
        return self._form

    async def allow(self) -> None:
        self._said.set_result(types.ElicitResult(action="accept", content={"allow": True}))

    async def deny(self) -> None:
        self._said.set_result(types.ElicitResult(action="decline"))

    async def later(self) -> None:
        self._said.set_result(types.ElicitResult(action="cancel"))

    async def outcome(self) -> str:
        assert self._client_call is not None
        async with asyncio.timeout(30):
            result = await self._client_call
        return str((result.meta or {}).get(OUTCOME_KEY, "ok"))


class AtModernMcpClient(AtMcpClient):
    """A client that gets the question as its answer, and calls again with the person's."""

    era = MODERN

    async def elsewhere(self, decision: str) -> None:
        await super().elsewhere(decision)
        await self.allow()  # the client cannot be called back: it learns of the other answer when it brings its own


class AtConfirmCommand(ApprovalSurface):
    """Nobody to ask: the call waits, and `handrail confirm` answers."""

    can_edit = can_defer = False

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch, folder: Path) -> None:
        super().__init__()
        self._path = folder / "journal.db"
        self._call = ToolCall("call_1", "act", {})

    async def _invoke(self) -> str:
        async with await SqliteJournal.open(self._path) as journal, Executor(self.tools, journal=journal) as executor:
            return (await executor.invoke(self._call, RUN)).outcome

    async def ask(self, arguments: Arguments) -> None:
        self._call = ToolCall("call_1", "act", arguments)
        assert await self._invoke() == "needs_confirmation"

    def _question(self) -> ConfirmationRequested:
        with JournalReader(self._path) as reader:
            (question,) = reader.pending()
        return question

    async def _confirm(self, *arguments: str) -> str:
        return (await asyncio.to_thread(command, "--journal", str(self._path), "confirm", *arguments)).output

    async def shown(self) -> str:
        copied = self._path.with_name("copy.db")  # to see the question is to answer it, so another journal is asked
        async with await SqliteJournal.open(copied) as journal, Executor(self.tools, journal=journal) as executor:
            await executor.invoke(self._call, RUN)
        with JournalReader(copied) as reader:
            (question,) = reader.pending()
        told = await asyncio.to_thread(command, "--journal", str(copied), "confirm", "allow", question.request)
        assert told.exit_code == 0
        return told.output

    async def allow(self) -> None:
        await self._confirm("allow", self._question().request, "--by", "ada")

    async def deny(self) -> None:
        await self._confirm("deny", self._question().request, "--by", "ada")

    async def elsewhere(self, decision: str) -> None:
        question = self._question()
        await answer(self._path, question, "allow" if decision == "allow" else "deny", by="grace")
        assert "no request" in await self._confirm("allow", question.request, "--by", "ada")

    async def outcome(self) -> str:
        return await self._invoke()

    async def answers(self) -> list[ConfirmationAnswered]:
        with JournalReader(self._path) as reader:
            return [each for each in reader.events() if isinstance(each, ConfirmationAnswered)]


TUI_TOOLS = '''
import json
from pathlib import Path
from typing import TypedDict

from handrail import Secret, tool


class Login(TypedDict):
    user: str
    password: Secret


@tool(side_effects=True)
def act(command: str, login: Login, note: str = "") -> str:
    """Run a command as somebody."""
    with Path("ran.jsonl").open("a") as file:
        file.write(json.dumps({"command": command, "login": {k: str(v) for k, v in login.items()}}) + "\\n")
    return "done"
'''
TUI_CONFIG = """
default_model = "demo"
ensembles = ["box.toml"]

[models.demo]
provider = "scripted"
model = "script.toml"
"""


class InTui(ApprovalSurface):
    """The terminal program."""

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch, folder: Path) -> None:
        super().__init__()
        self._stack = stack
        self._folder = folder
        self._person: ScriptedTerminal | None = None
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        stack.callback(sys.modules.pop, "contract_tools", None)

    @property
    def person(self) -> ScriptedTerminal:
        assert self._person is not None
        return self._person

    async def ask(self, arguments: Arguments) -> None:
        # A text in JSON is one in TOML too.
        login = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments["login"].items())
        given = f"command = {json.dumps(arguments['command'])}, login = {{ {login} }}"
        files = {
            "contract_tools.py": TUI_TOOLS,
            "handrail.toml": TUI_CONFIG,
            "box.toml": '[ensemble]\nname = "box"\n\n[[invokers]]\nname = "act"\npython = "contract_tools:act"\n',
            "script.toml": calls("act", "act", given, then="So it stands."),
        }
        for name, content in files.items():
            (self._folder / name).write_text(content, encoding="utf-8")
        self._person = await self._stack.enter_async_context(terminal(self._folder, size=(120, 60)))
        await self.person.say("act")
        await self.person.asked()

    async def shown(self) -> str:
        return self.person.static("#what Static")

    async def allow(self) -> None:
        await self.person.press_button("allow")

    async def deny(self) -> None:
        await self.person.press_button("deny")

    async def later(self) -> None:
        await self.person.press_button("later")

    async def edit(self, change: Callable[[str], str]) -> str:
        await self.person.press_button("edit")
        await self.person.until(lambda: isinstance(self.person.app.screen, JsonEditor))
        area = self.person.app.screen.query_one(TextArea)
        area.load_text(change(area.text))
        await self.person.press("ctrl+s")
        await self.person.until(lambda: not self._edits or self.person.static("#problems"))
        return self.person.static("#problems") if self._edits else ""

    @property
    def _edits(self) -> bool:
        return isinstance(self.person.app.screen, JsonEditor)

    @property
    def _journal(self) -> Path:
        return self._folder / ".handrail" / "journal.db"

    async def elsewhere(self, decision: str) -> None:
        with JournalReader(self._journal) as reader:
            (question,) = reader.pending()
        await answer(self._journal, question, "allow" if decision == "allow" else "deny", by="grace")

    async def outcome(self) -> str:

        async def settled() -> bool:
            (about,) = await self.person.desk.talks()
            return about.state != "working" and not self.person.desk.questions

        await until_asked(settled)
        (about,) = await self.person.desk.talks()
        if about.state == "waiting":
            return "needs_confirmation"
        await self.person.until(lambda: "So it stands." in self.person.screen)
        path = self._folder / "ran.jsonl"
        self.ran = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
        return str(self.person.cards[0].shown.outcome)

    async def answers(self) -> list[ConfirmationAnswered]:
        with JournalReader(self._journal) as reader:
            return [each for each in reader.events() if isinstance(each, ConfirmationAnswered)]


Make = Callable[[AsyncExitStack, pytest.MonkeyPatch, Path], ApprovalSurface]


def _without_folder(kind: Callable[[AsyncExitStack, pytest.MonkeyPatch], ApprovalSurface]) -> Make:
    return lambda stack, patch, folder: kind(stack, patch)


SURFACES: dict[str, Make] = {
    "terminal": _without_folder(AtTerminal),
    "rules": _without_folder(BehindRules),
    "rlm": _without_folder(InRlm),
    "page": _without_folder(AtDesk),
    "tui": InTui,
    "bus": _without_folder(OnBus),
    "mcp": _without_folder(AtMcpClient),
    "mcp modern": _without_folder(AtModernMcpClient),
    "deferred": AtConfirmCommand,
}


@asynccontextmanager
async def opened(name: str, patch: pytest.MonkeyPatch, folder: Path) -> AsyncIterator[ApprovalSurface]:
    async with AsyncExitStack() as stack:
        yield SURFACES[name](stack, patch, folder)
