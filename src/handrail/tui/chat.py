"""The conversation: what was said, what is under way, and where the person writes.

The screen follows a conversation of the desk and tells it what the person wants; whatever is shown came from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Static

from handrail.core.errors import HandrailError
from handrail.desk.desk import Desk
from handrail.desk.values import Alert, Attached, EnsembleChoice, Question, Snapshot, State, Told
from handrail.tui.alert import Banner
from handrail.tui.card import Card
from handrail.tui.dialogs import Line, Pick, PickSome, Whole
from handrail.tui.files import attached
from handrail.tui.prompt import Prompt
from handrail.tui.question import Ask
from handrail.tui.transcript import PIECE, Transcript
from handrail.tui.undoing import points
from handrail.tui.words import count, line, plain

_STATES: dict[State, str] = {
    "idle": "",
    "working": "working, Esc stops it",
    "waiting": "waits for your word",
    "failed": "failed",
}


class Chat(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", show=False),
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+z", "undo", "Undo", priority=True),
        Binding("f4", "model", "Model"),
        Binding("f5", "ensembles", "Sets"),
        Binding("f6", "alert", "To the alert", show=False, priority=True),
        Binding("f7", "question", "To the question", show=False, priority=True),
        Binding("ctrl+t", "attach", "Attach", show=False, priority=True),
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
        self._title = ""
        self._questions: dict[str, Question] = {}
        self._attached: tuple[Attached, ...] = ()
        self._upto: int | None = None
        """Where the words that are being edited were said; sending them takes back everything from there on."""

    def compose(self) -> ComposeResult:
        yield Static(id="about")
        yield Transcript()
        yield Banner()
        yield Prompt()
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(Prompt).focus()

    @on(Transcript.Ready)
    def begin(self) -> None:
        self.go(self.talk)

    def go(self, talk: str) -> None:
        """Show that conversation from now on."""
        self.talk = talk
        self._edit(None)
        self._questions = {}
        self._follow(talk)

    # ── what is told ─────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="follow")
    async def _follow(self, talk: str) -> None:
        try:
            async with aclosing(self._desk.follow(talk)) as told:
                async for each in told:
                    match each:
                        case Snapshot():
                            await self._begin(each)
                        case Told():
                            await self._hear(each.type, each.data)
        except HandrailError as error:
            self._complain(error)

    async def _begin(self, now: Snapshot) -> None:
        self._total, self._title, self._model, self._ensembles = now.total, now.title, now.model, now.ensembles
        self._set_state(now.state)
        await self.query_one(Transcript).show(now)
        self.query_one(Banner).show(now.alert)
        for question in now.questions:
            self._ask(question)

    async def _hear(self, type: str, data: Any) -> None:
        transcript = self.query_one(Transcript)
        match type:
            case "text":
                await transcript.text(data["text"])
            case "reasoning":
                await transcript.thought(data["text"])
            case "call":
                await transcript.call(data)
            case "notice":
                await transcript.notice(data["text"])
            case "items":
                self._total = data["total"]
                await transcript.renew(data["from"], data["items"])
            case "question":
                self._ask(data)
            case "answered":
                await self._answered(data["request"])
            case "state":
                self._set_state(data["state"])
            case "alert":
                self.query_one(Banner).show(data if isinstance(data, Alert) else None)
            case "about":
                self._title, self._model, self._ensembles = data["title"], data["model"], data["ensembles"]
                self._say_about()
            case "gone":
                self.action_new()

    def _set_state(self, state: State) -> None:
        self.state = state
        self._say_about()

    def _say_about(self) -> None:
        named = ", ".join(each or "own tools" for each in self._ensembles or ())
        sets = "all tools" if self._ensembles is None else named or "no tools"
        state = f" · {_STATES[self.state]}" if _STATES[self.state] else ""
        title = line(self._title, 40) or "new conversation"
        self.query_one("#about", Static).update(plain(f"{title} · {line(self._model, 30)} · {line(sets, 30)}{state}"))

    # ── questions ────────────────────────────────────────────────────────────────────

    def _ask(self, question: Question) -> None:
        self._questions[question.request] = question
        if not any(isinstance(each, Ask) for each in self.app.screen_stack):
            self.app.push_screen(Ask(self._desk, question))

    async def _answered(self, request: str) -> None:
        self._questions.pop(request, None)
        for each in self.app.screen_stack:
            if isinstance(each, Ask) and each.question.request == request:
                await each.close()
        if self._questions:
            self._ask(next(iter(self._questions.values())))

    async def action_question(self) -> None:
        """The first question that still waits; one that was put off is asked anew."""
        if self._questions:
            self._ask(next(iter(self._questions.values())))
        elif self.state == "waiting":
            await self._try(self._desk.again(self.talk))

    # ── what the person wants ────────────────────────────────────────────────────────

    @on(Prompt.Sent)
    def _sent(self, event: Prompt.Sent) -> None:
        self._say(event.text)

    @work(group="say")
    async def _say(self, text: str) -> None:
        if await self._try(self._desk.say(self.talk, text, self._attached, upto=self._upto)):
            self._edit(None)
            self.query_one(Prompt).load_text("")
            self.query_one(Transcript).anchor()

    def action_stop(self) -> None:
        if self._upto is not None or self._attached:
            self._edit(None)
        elif self.state in ("working", "waiting"):
            self.run_worker(self._try(self._desk.stop(self.talk)))
        self.query_one(Prompt).focus()

    @work(group="new")
    async def action_new(self) -> None:
        self.go(await self._desk.begin(model=self._model or None, ensembles=self._ensembles))

    @work(exclusive=True, group="dialog")
    async def action_undo(self) -> None:
        found = await points(self._desk, self.talk, self._total)
        if not found:
            self.notify("Nothing was said here yet.")
            return
        note = "What tools did stays done, and stays on record."
        upto = await self.app.push_screen_wait(Pick("Take back everything from where you said", found, note=note))
        if upto is not None:
            await self._undo(int(upto))

    async def _undo(self, upto: int) -> None:
        try:
            words = await self._desk.undo(self.talk, upto)
        except HandrailError as error:
            self._complain(error)
            return
        self.query_one(Prompt).begin(words)
        self.notify("Taken back. What tools did stays done, and stays on record.")

    @on(Banner.Chosen)
    async def _go_on(self, event: Banner.Chosen) -> None:
        alert = event.alert
        match event.way:
            case "undo":
                await self._undo(alert.upto)
            case "edit":
                self._edit(alert.upto)
                self.query_one(Prompt).begin(alert.words)
            case "on" if self.state in ("working", "waiting"):  # the model has read of it, and goes on by itself
                await self._try(self._desk.dismiss(self.talk))
            case "on":
                await self._try(self._desk.again(self.talk))
            case "dismiss":
                await self._try(self._desk.dismiss(self.talk))
        self.query_one(Prompt).focus()

    def action_alert(self) -> None:
        if self.query_one(Banner).alert is not None:
            self.query_one("#undo").focus()

    @work(exclusive=True, group="dialog")
    async def action_model(self) -> None:
        models = self._desk.about().models
        rows = [(each.name, f"{each.name}  {each.model}" if each.model else each.name) for each in models]
        name = await self.app.push_screen_wait(Pick("Go on with which model?", rows, chosen=self._model))
        if name is not None:
            await self._try(self._desk.choose(self.talk, model=name, ensembles=self._ensembles))

    @work(exclusive=True, group="dialog")
    async def action_ensembles(self) -> None:
        known = self._desk.about().ensembles
        rows = [(each.name, _set_row(each)) for each in known]
        every = tuple(each.name for each in known)
        chosen = every if self._ensembles is None else self._ensembles
        taken = await self.app.push_screen_wait(PickSome("Which sets of tools are offered?", rows, chosen))
        if taken is not None:
            wanted = None if set(taken) == set(every) else taken
            await self._try(self._desk.choose(self.talk, ensembles=wanted))

    @work(exclusive=True, group="dialog")
    async def action_attach(self) -> None:
        path = await self.app.push_screen_wait(Line("Attach which file?", note="It goes with what you say next."))
        if path is None:
            return
        try:
            self._attached = (*self._attached, await asyncio.to_thread(attached, path))
        except HandrailError as error:
            self._complain(error)
        self._say_writing()

    def _edit(self, upto: int | None) -> None:
        self._upto = upto
        self._attached = () if upto is None else self._attached
        self._say_writing()

    def _say_writing(self) -> None:
        prompt = self.query_one(Prompt)
        prompt.border_title = "" if self._upto is None else "edit: Enter takes the turn back and says this"
        prompt.border_subtitle = plain(", ".join(f"📎 {line(each.name, 30)}" for each in self._attached))

    # ── reading on ───────────────────────────────────────────────────────────────────

    async def action_page(self, by: int) -> None:
        transcript = self.query_one(Transcript)
        if by < 0 and transcript.scroll_y <= 0:
            await self._older()
        elif by < 0:
            transcript.scroll_page_up(animate=False)
        else:
            transcript.scroll_page_down(animate=False)

    @on(Transcript.WantsOlder)
    async def _older(self) -> None:
        transcript = self.query_one(Transcript)
        if transcript.first > 0:
            await transcript.older(await self._desk.items(self.talk, transcript.first, PIECE))

    @on(Card.Whole)
    async def _whole(self, event: Card.Whole) -> None:
        shown = event.shown
        text = shown.result.text if shown.result is not None else ""
        if shown.result is not None and shown.result.whole and shown.index is not None:
            text = await self._desk.whole(self.talk, shown.index)
        self.app.push_screen(Whole(f"{line(shown.name, 60)}, {count(len(text), 'character')}", text))

    async def _try(self, work: Awaitable[Any]) -> bool:
        try:
            await work
        except HandrailError as error:
            self._complain(error)
            return False
        return True

    def _complain(self, error: HandrailError) -> None:
        self.notify(line(str(error)), severity="error", markup=False)


def _set_row(choice: EnsembleChoice) -> str:
    problem = f", {line(choice.problem, 40)}" if choice.problem else ""
    return f"{choice.name or 'own tools'}, {count(choice.tools, 'tool')}{problem}"
