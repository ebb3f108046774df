"""The terminal program: its screens, its keys, and the news of conversations that are not on the screen."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

from rich.traceback import Traceback
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from handrail.desk.desk import Desk
from handrail.desk.tui.alert_banner import alert_text
from handrail.desk.tui.chat import ChatScreen
from handrail.desk.tui.conversations import ConversationsScreen
from handrail.desk.tui.dialogs import ConfirmDialog
from handrail.desk.tui.formatting import line
from handrail.desk.tui.proof import ProofScreen
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.tui.tools import ToolsScreen, TrialScreen
from handrail.desk.values import Alert, ConversationSummary, DeskQuestion
from handrail.desk.views.journal_index import JournalIndex
from handrail.desk.views.proofs import ProofViews
from handrail.desk.views.tools import ToolViews

_KEYS = (
    ("Enter", "say it"),
    ("Ctrl+J", "a new line; also Shift+Enter, if the terminal reports it"),
    ("Esc", "stop the turn, leave an edit, close a dialog"),
    ("Ctrl+Z", "undo back to any of your messages"),
    ("Ctrl+N", "a new conversation"),
    ("Ctrl+O", "conversations: search, fork, rename, share, take, delete"),
    ("F2", "tools: details, statistics, and trying one"),
    ("F3", "the record: what ran, verifying it, receipts, export"),
    ("F4, F5", "another model; which tools it may use"),
    ("F6, F7", "go to the alert; go to the question that waits"),
    ("Ctrl+T", "attach a file to your next message"),
    ("Ctrl+S", "save a picture or a file of this conversation"),
    ("Tab", "to the panes of calls: Enter unfolds one, w shows all of it"),
    ("PageUp", "earlier messages"),
    ("Ctrl+P", "commands, and themes, light and dark"),
    ("Ctrl+Q", "leave"),
)
_NOTES = """
Before a tool changes something you are asked. The dialog shows exactly what will run; \
text that you are typing cannot answer it by accident. Undoing a turn changes what the model \
sees. Side effects of tools are not reversed, and stay in the record.

Set TEXTUAL_THEME=textual-light for a light terminal, NO_COLOR=1 for none."""


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss(None)", "Close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog tall", can_focus=True):
            for key, says in _KEYS:
                yield Static(Content.assemble((f"{key:<8}", "bold $text-accent"), f" {says}"))
            yield Static(Content(_NOTES))
        yield Footer(compact=True, show_command_palette=False)


class TuiApp(App[None]):
    """Runs until the person leaves. The desk is opened and closed by whoever starts it."""

    CSS_PATH = Path(__file__).with_name("style.tcss")
    TITLE = "handrail"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(self, desk: Desk, talk: str) -> None:
        super().__init__()
        self.desk = desk
        self.chat = ChatScreen(desk, talk)
        self._record = JournalIndex(desk.app.journal.path)
        self._working: set[str] = set()

    def on_mount(self) -> None:
        self.push_screen(self.chat)
        self._listen()

    @work(group="news")
    async def _listen(self) -> None:
        async with aclosing(self.desk.watch()) as news:
            async for kind, about in news:
                self._hear(kind, about)

    def _hear(self, kind: str, about: Any) -> None:
        match about:
            case ConversationSummary(id=id, state=state):
                (self._working.add if state == "working" else self._working.discard)(id)
            case Alert(conversation=talk) if talk != self.chat.talk:
                self.bell()
                self.notify(alert_text(about), title="In another conversation", severity="error", markup=False)
            case DeskQuestion(conversation=""):
                self.notify(f"{line(about.tool, 60)} of another program waits for approval; F7 shows it", markup=False)
            case DeskQuestion(conversation=talk) if talk not in (self.chat.talk, *(each.run for each in self._trials)):
                self.notify(f"{line(about.tool, 60)} waits for approval; Ctrl+O goes there", markup=False)
            case str() if kind == "answered":
                self.run_worker(self._close_question(about))
            case str() if kind == "gone":
                self._working.discard(about)

    async def _close_question(self, request: str) -> None:
        """What another program asked is answered. Those of conversations are closed by their screens."""
        for each in self.screen_stack:
            if isinstance(each, QuestionScreen) and each.question.request == request and not each.question.conversation:
                await each.close()

    @property
    def _trials(self) -> list[TrialScreen]:
        """Tools that are tried: their questions are asked there."""
        return [each for each in self.screen_stack if isinstance(each, TrialScreen)]

    def tell(self, text: str) -> None:
        """Something that the program says beside everything else."""
        self.notify(line(text), markup=False)

    def _fatal_error(self) -> None:
        """A bug: where it is, and no values, which Textual would show too. There may be secrets among them."""
        self.bell()
        self.panic(Traceback(show_locals=False))

    # ── keys ─────────────────────────────────────────────────────────────────────────

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_talks(self) -> None:
        self.push_screen(ConversationsScreen(self.desk, self.chat.talk), self._go)

    def _go(self, talk: str | None) -> None:
        if talk is not None:
            self.chat.go(talk)

    def action_tools(self) -> None:
        self.push_screen(ToolsScreen(self.desk, ToolViews(self.desk.app, self._record)))

    def action_proof(self) -> None:
        proofs = ProofViews(self._record, self.desk.app.state.conversations())
        self.push_screen(ProofScreen(proofs, self.desk.app.journal.path, self.chat.talk))

    @work(exclusive=True, group="quit")
    async def action_quit(self) -> None:  # type: ignore[override]  # a worker, since it may ask
        turn = self._working or self.chat.state == "working" or self.desk.questions
        trial = self.desk.trials.under_way
        what = "A tool is running" if trial else "A turn is running"
        if not (turn or trial) or await self.push_screen_wait(
            ConfirmDialog(f"{what}. If you leave, it stops; effects are not reversed and stay in the record.", "Leave")
        ):
            self.exit()
