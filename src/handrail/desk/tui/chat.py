"""The conversation: what was said, what is under way, and where the person writes.

The screen follows a conversation of the desk and tells it what the person wants; whatever is shown came from there.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static, TextArea

from handrail.desk.desk import Desk
from handrail.desk.tui.alert_banner import AlertBanner
from handrail.desk.tui.call_card import CallCard
from handrail.desk.tui.dialogs import (
    FullTextDialog,
    LineDialog,
    PickDialog,
    chosen_tools,
    list_conversation_files,
    list_undo_points,
    pick_model,
    pick_tools,
    read_attachment,
    save_download,
)
from handrail.desk.tui.formatting import attempt, count_text, line, plain, succeeded
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.tui.start import StartExample, StartScreen
from handrail.desk.tui.transcript import PIECE, TranscriptView
from handrail.desk.values import Alert, AttachedFile, ConversationEvent, ConversationSnapshot, DeskQuestion, State

_NEW_LINE = ("ctrl+j", "shift+enter", "alt+enter")


class PromptArea(TextArea):
    class Sent(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            id="prompt", compact=True, highlight_cursor_line=False, placeholder="Say something. Enter sends, F1 helps."
        )

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "enter":
                event.stop()
                event.prevent_default()
                if self.text.strip():
                    self.post_message(PromptArea.Sent(self.text))
            case key if key in _NEW_LINE:
                event.stop()
                event.prevent_default()
                self.insert("\n")
            case _:
                await super()._on_key(event)

    def begin(self, text: str) -> None:
        """Put words there, to be changed."""
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.focus()


_STATES: dict[State, str] = {
    "idle": "",
    "working": "working, Esc stops it",
    "waiting": "waits for your approval, F7 shows it",
    "failed": "failed",
}


class ChatScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+o", "app.talks", "Talks", priority=True),
        Binding("ctrl+z", "undo", "Undo", priority=True),
        Binding("f2", "app.tools", "Tools"),
        Binding("f3", "app.proof", "Proof"),
        Binding("f1", "app.help", "Help"),
        Binding("escape", "stop", "Stop", show=False),
        Binding("f4", "model", "Model", show=False),
        Binding("f5", "ensembles", "Sets of tools", show=False),
        Binding("f6", "alert", "To the alert", show=False, priority=True),
        Binding("f7", "question", "To the question", show=False, priority=True),
        Binding("ctrl+t", "attach", "Attach", show=False, priority=True),
        Binding("ctrl+s", "save", "Save a file", show=False, priority=True),
        Binding("pageup", "page(-1)", "Back", show=False, priority=True),
        Binding("pagedown", "page(1)", "On", show=False, priority=True),
    ]

    def __init__(self, desk: Desk, talk: str) -> None:
        super().__init__()
        self.talk = talk
        self.state: State = "idle"
        self._desk = desk
        self._total = 0
        self._model = ""
        self._ensembles: tuple[str, ...] | None = None
        self._off: tuple[str, ...] = ()
        self._title = ""
        self._questions: dict[str, DeskQuestion] = {}
        """Those that wait, by request."""
        self._put: set[str] = set()
        """Those that were on the screen."""
        self._attached: tuple[AttachedFile, ...] = ()
        self._upto: int | None = None
        """Where the words that are being edited were said; sending them takes back everything from there on."""

    def compose(self) -> ComposeResult:
        yield Static(id="about")
        yield StartScreen(self._desk.about())
        yield TranscriptView()
        yield AlertBanner()
        yield PromptArea()
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(PromptArea).focus()

    @on(TranscriptView.Ready)
    def begin(self) -> None:
        self.go(self.talk)

    def go(self, talk: str) -> None:
        """Show that conversation from now on."""
        self.talk = talk
        self._edit(None)
        self._questions, self._put = {}, set()
        self._follow(talk)

    # ── what is told ─────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="follow")
    async def _follow(self, talk: str) -> None:
        await attempt(self, self._listen(talk))

    async def _listen(self, talk: str) -> None:
        async with aclosing(self._desk.follow(talk)) as told:
            async for each in told:
                match each:
                    case ConversationSnapshot():
                        await self._begin(each)
                    case ConversationEvent():
                        await self._hear(each.type, each.data)

    async def _begin(self, now: ConversationSnapshot) -> None:
        self._total, self._title, self._model, self._ensembles = now.total, now.title, now.model, now.ensembles
        self._off = now.off
        self._set_state(now.state)
        await self.query_one(TranscriptView).show(now)
        self.query_one(AlertBanner).show(now.alert)
        for question in now.questions:
            self._ask(question)

    async def _hear(self, type: str, data: Any) -> None:
        transcript = self.query_one(TranscriptView)
        match type:
            case "text":
                await transcript.text(data["text"])
            case "reasoning":
                await transcript.thought(data["text"])
            case "call":
                await transcript.call(data)
            case "service_call":
                await transcript.service_call(data)
            case "notice":
                await transcript.notice(data["text"])
            case "items":
                self._total = data["total"]
                self._show_start()
                await transcript.renew(data["from"], data["items"])
            case "question":
                self._ask(data)
            case "answered":
                await self._answered(data["request"])
            case "state":
                self._set_state(data["state"])
            case "alert":
                self.query_one(AlertBanner).show(data if isinstance(data, Alert) else None)
            case "about":
                self._title, self._model, self._ensembles = data["title"], data["model"], data["ensembles"]
                self._off = data["off"]
                self._say_about()
            case "gone":
                self.action_new()

    def _set_state(self, state: State) -> None:
        self.state = state
        self._say_about()
        self._show_start()

    def _show_start(self) -> None:
        """Shows the start view as long as nothing was said."""
        self.query_one(StartScreen).display = self._total == 0 and self.state == "idle"

    @on(StartExample.Chosen)
    def _write_example(self, event: StartExample.Chosen) -> None:
        self.query_one(PromptArea).begin(event.words)

    def _say_about(self) -> None:
        named = ", ".join(each or "own tools" for each in self._ensembles or ())
        sets = "all tools" if self._ensembles is None else named or "no tools"
        sets += f" but {len(self._off)}" if self._off and sets != "no tools" else ""
        state = f"{_STATES[self.state]} · " if _STATES[self.state] else ""
        title = line(self._title, 40) or "new conversation"
        chosen = f"F4 {line(self._model, 30)} · F5 {line(sets, 30)}"
        self.query_one("#about", Static).update(plain(f"{state}{title} · {chosen}"))

    # ── questions ────────────────────────────────────────────────────────────────────

    def _ask(self, question: DeskQuestion) -> None:
        self._questions[question.request] = question
        if not any(isinstance(each, QuestionScreen) for each in self.app.screen_stack):
            self._put.add(question.request)
            self.app.push_screen(QuestionScreen(self._desk, question))

    def on_screen_resume(self) -> None:
        """Here again: what could not be asked while something else was."""
        if new := [each for each in self._questions.values() if each.request not in self._put]:
            self._ask(new[0])

    async def _answered(self, request: str) -> None:
        self._questions.pop(request, None)
        for each in self.app.screen_stack:
            if isinstance(each, QuestionScreen) and each.question.request == request:
                await each.close()
        if self._questions:
            self._ask(next(iter(self._questions.values())))

    async def action_question(self) -> None:
        """The first question that still waits, those of other programs last. One that was put off is asked again."""
        if self._questions:
            self._ask(next(iter(self._questions.values())))
        elif self.state == "waiting":
            await attempt(self, self._desk.again(self.talk))
        elif elsewhere := self._desk.asked_elsewhere:
            asked = next((each for each in elsewhere if each.request not in self._put), elsewhere[0])
            self._put.add(asked.request)
            self.app.push_screen(QuestionScreen(self._desk, asked))

    # ── what the person wants ────────────────────────────────────────────────────────

    @on(PromptArea.Sent)
    def _sent(self, event: PromptArea.Sent) -> None:
        self._say(event.text)

    @work(group="say")
    async def _say(self, text: str) -> None:
        """The prompt is free at once: what is typed meanwhile stays, and a second Enter says nothing twice."""
        prompt = self.query_one(PromptArea)
        prompt.load_text("")
        if await succeeded(self, self._desk.say(self.talk, text, self._attached, upto=self._upto)):
            self._edit(None)
            self.query_one(TranscriptView).anchor()
        elif not prompt.text:
            prompt.begin(text)

    def action_stop(self) -> None:
        """A turn at work is stopped first of all."""
        if self.state != "working" and (self._upto is not None or self._attached):
            self._edit(None)
        elif self.state in ("working", "waiting"):
            self.run_worker(attempt(self, self._desk.stop(self.talk)))
        self.query_one(PromptArea).focus()

    @work(group="new")
    async def action_new(self) -> None:
        begun = await attempt(
            self, self._desk.begin(model=self._model or None, ensembles=self._ensembles, off=self._off)
        )
        if begun is not None:
            self.go(begun)

    @work(exclusive=True, group="dialog")
    async def action_undo(self) -> None:
        found = await attempt(self, list_undo_points(self._desk, self.talk, self._total))
        if not found:
            self.notify("This conversation has no messages yet.")
            return
        note = "Side effects of tools are not reversed, and stay in the record."
        upto = await self.app.push_screen_wait(PickDialog("Undo everything from this message on", found, note=note))
        if upto is not None:
            await self._undo(int(upto))

    async def _undo(self, upto: int) -> None:
        words = await attempt(self, self._desk.undo(self.talk, upto))
        if words is None:
            return
        self._edit(None)
        self.query_one(PromptArea).begin(words)
        self.notify("Undone. Side effects of tools are not reversed, and stay in the record.")

    @on(AlertBanner.Chosen)
    async def _go_on(self, event: AlertBanner.Chosen) -> None:
        alert = event.alert
        match event.way:
            case "undo":
                await self._undo(alert.upto)
            case "edit":
                self._edit(alert.upto)
                self.query_one(PromptArea).begin(alert.words)
            case "on" if self.state in ("working", "waiting"):  # the model has read of it, and goes on by itself
                await attempt(self, self._desk.dismiss(self.talk))
            case "on":
                await attempt(self, self._desk.again(self.talk))
            case "dismiss":
                await attempt(self, self._desk.dismiss(self.talk))
        self.query_one(PromptArea).focus()

    def action_alert(self) -> None:
        if self.query_one(AlertBanner).alert is not None:
            self.query_one("#undo").focus()

    @work(exclusive=True, group="dialog")
    async def action_model(self) -> None:
        name = await self.app.push_screen_wait(pick_model(self._desk.about(), self._model))
        if name is not None:
            await attempt(self, self._desk.choose(self.talk, model=name, ensembles=self._ensembles))

    @work(exclusive=True, group="dialog")
    async def action_ensembles(self) -> None:
        about = self._desk.about()
        taken = await self.app.push_screen_wait(pick_tools(about, self._ensembles, self._off))
        if taken is not None:
            ensembles, off = chosen_tools(about, taken, self._off)
            await attempt(self, self._desk.choose(self.talk, ensembles=ensembles, off=off))

    @work(exclusive=True, group="dialog")
    async def action_attach(self) -> None:
        path = await self.app.push_screen_wait(LineDialog("Attach which file?", note="Your next message sends it."))
        if path is None:
            return
        if (file := await attempt(self, asyncio.to_thread(read_attachment, path))) is not None:
            self._attached = (*self._attached, file)
            self._say_writing()

    @work(exclusive=True, group="dialog")
    async def action_save(self) -> None:
        """Save a picture or a file of this conversation."""
        found = await attempt(self, list_conversation_files(self._desk, self.talk, self._total))
        if not found:
            self.notify("There is no picture or file in this conversation.")
            return
        key = await self.app.push_screen_wait(PickDialog("Save which file?", found))
        if key is None:
            return
        index, _, part = key.partition(".")
        file = await attempt(self, self._desk.attachment(self.talk, int(index), int(part)))
        if file is None:
            return
        await save_download(self, "Save to which file?", file)

    def _edit(self, upto: int | None) -> None:
        self._upto = upto
        self._attached = () if upto is None else self._attached
        self._say_writing()

    def _say_writing(self) -> None:
        prompt = self.query_one(PromptArea)
        prompt.border_title = "" if self._upto is None else "edit: Enter removes the turn and sends this"
        prompt.border_subtitle = plain(", ".join(f"📎 {line(each.name, 30)}" for each in self._attached))

    # ── reading on ───────────────────────────────────────────────────────────────────

    async def action_page(self, by: int) -> None:
        transcript = self.query_one(TranscriptView)
        if by < 0 and transcript.scroll_y <= 0:
            await self._older()
        elif by < 0:
            transcript.scroll_page_up(animate=False)
        else:
            transcript.scroll_page_down(animate=False)

    @on(TranscriptView.WantsOlder)
    async def _older(self) -> None:
        transcript = self.query_one(TranscriptView)
        if transcript.first > 0:
            await transcript.older(await attempt(self, self._desk.items(self.talk, transcript.first, PIECE)) or ())

    @on(CallCard.Whole)
    async def _whole(self, event: CallCard.Whole) -> None:
        shown = event.shown
        text = shown.result.text if shown.result is not None else ""
        if shown.result is not None and shown.result.whole and shown.index is not None:
            text = await attempt(self, self._desk.whole(self.talk, shown.index)) or text
        self.app.push_screen(FullTextDialog(f"{line(shown.name, 60)}, {count_text(len(text), 'character')}", text))
