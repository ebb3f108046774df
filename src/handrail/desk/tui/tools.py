"""The tools: which there are, what each is and how it did; and one tried out, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from handrail.core.display import exact_json, read_edited_object
from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.tui.call_card import CallCard, CallCardContent
from handrail.desk.tui.dialogs import FullTextDialog
from handrail.desk.tui.formatting import MUTED, attempt, count_text, duration_text, line, plain
from handrail.desk.tui.json_editor import JsonEditor, json_template
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.values import DeskQuestion, LiveCall
from handrail.desk.views.tools import ToolViews
from handrail.desk.views.values import ToolPage, ToolRow

_BARS = "▁▂▃▄▅▆▇█"


class ToolsScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("slash", "search", "Search"),
        Binding("t", "attempt", "Try it"),
        Binding("tab", "app.focus_next", "Read on", show=True),
    ]

    def __init__(self, desk: Desk, views: ToolViews) -> None:
        super().__init__()
        self._desk = desk
        self._views = views
        self._rows: tuple[ToolRow, ...] = ()
        self._shown: tuple[ToolRow, ...] = ()
        self._tool = ""
        """The one that is looked at."""

    def compose(self) -> ComposeResult:
        yield Static("Tools", classes="title")
        yield Input(placeholder="/ searches names and descriptions", id="search", compact=True)
        with Horizontal(classes="columns"):
            yield OptionList(classes="list", compact=True)
            with VerticalScroll(classes="page", can_focus=True):
                yield Static(id="tool")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        self._rows = await attempt(self, self._views.rows()) or ()
        self._list()

    @on(Input.Changed)
    def _list(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        self._shown = tuple(each for each in self._rows if _fits(each, words))
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_row(each)) for each in self._shown)
        names = [each.name for each in self._shown]
        if names:
            options.highlighted = names.index(self._tool) if self._tool in names else 0
        title = self.query(".title").first(Static)
        title.update(f"Tools: {len(self._shown)} of {len(self._rows)}")

    @on(Input.Submitted)
    def found(self) -> None:
        self.query_one(OptionList).focus()

    def action_search(self) -> None:
        self.query_one(Input).focus()

    @on(OptionList.OptionHighlighted)
    def looked_at(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._shown):
            self._tool = self._shown[event.option_index].name
            self.show_tool(self._tool)

    @on(OptionList.OptionSelected)
    def picked(self) -> None:
        self.action_attempt()

    @work(exclusive=True, group="tool")
    async def show_tool(self, name: str) -> None:
        page = await attempt(self, self._views.page(name))
        if page is None:
            return
        self.query_one("#tool", Static).update(Content("\n").join(_page(page)))
        self.query_one(".page").scroll_home(animate=False)

    @work(exclusive=True, group="attempt")
    async def action_attempt(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is None or at >= len(self._shown):
            return
        name = self._shown[at].name
        begun = self._desk.trials.of(name)
        if begun and not self._desk.trials.find(begun[0].run).is_seen:
            await self.app.push_screen_wait(TrialScreen(self._desk, name, run=begun[0].run))
            self.load()
            return
        page = await attempt(self, self._views.page(name))
        if page is None:
            return
        note = "Ctrl+S runs it, through the same checks as a model's call." + _effects(page.row)
        given = exact_json(page.examples[0] if page.examples else json_template(page.input_schema))
        fitting: list[dict[str, Any]] = []

        async def take(text: str) -> None:
            arguments = read_edited_object(text)
            if problems := self._views.find(name).validator.problems(arguments):
                raise UsageError("\n".join(problems))
            fitting.append(arguments)

        if await self.app.push_screen_wait(JsonEditor(f"Try {line(name, 60)}", given, take, note=note)):
            await self.app.push_screen_wait(TrialScreen(self._desk, name, fitting[-1]))
            self.load()


def _fits(row: ToolRow, words: list[str]) -> bool:
    known = f"{row.name} {row.summary} {row.ensemble} {row.source}".casefold()
    return all(word in known for word in words)


def _effects(row: ToolRow) -> str:
    return " It changes something: you are asked before it runs." if row.side_effects else ""


def _row(row: ToolRow) -> Content:
    sign = ("✎ ", "$text-warning") if row.side_effects else ("  ", "")
    failed = (f" ✗{row.failed}", "$text-error") if row.failed else ("", "")
    return Content.assemble(sign, line(row.name, 24), (f" {row.picked}" if row.picked else "", MUTED), failed)


def _page(page: ToolPage) -> Iterator[Content]:
    row = page.row
    yield plain(line(row.name), "bold")
    yield plain(f"{line(row.source or 'own')} · {line(row.effects)}{' · deprecated' if row.deprecated else ''}", MUTED)
    yield plain(page.description.strip() or "(no description)")
    yield plain(f"\n{_use(row)}", "bold")
    if row.recent:
        yield plain(
            f"last calls {duration_bars(row.recent)}  p50 {duration_text(row.p50_us)}, p95 {duration_text(row.p95_us)}"
        )
    if page.outcomes:
        yield plain(", ".join(f"{name} {number}" for name, number in page.outcomes.items()))
    if page.limits:
        yield plain("\nlimits: " + ", ".join(f"{name} {line(str(value), 40)}" for name, value in page.limits.items()))
    if page.secrets:
        yield plain(f"masked: {', '.join(page.secrets)}")
    yield plain("\nrules", "bold")
    nobody = "none; a person is asked each time" if row.side_effects else "none; it changes nothing, so nobody is asked"
    yield plain("\n".join(map(line, page.rules)) or nobody)
    yield plain("\ninput", "bold")
    yield plain(exact_json(page.input_schema))
    if page.output_schema is not None:
        yield plain("\noutput", "bold")
        yield plain(exact_json(page.output_schema))
    yield plain(f"\ndefinition {page.definition}", MUTED)


def _use(row: ToolRow) -> str:
    return f"offered {count_text(row.offered, 'time')}, called {row.picked}, failed {row.failed}"


def duration_bars(durations: tuple[int, ...]) -> str:
    """Durations as small bars; a failed call is a cross."""
    top = max(map(abs, durations), default=0) or 1
    return "".join("✗" if each < 0 else _BARS[min(7, each * 8 // (top + 1))] for each in durations)


class TrialScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("ctrl+x", "stop", "Stop"),
    ]

    def __init__(self, desk: Desk, name: str, arguments: dict[str, Any] | None = None, run: str = "") -> None:
        """With `run`, one that was begun before."""
        super().__init__()
        self._desk = desk
        self._tool = name
        self._arguments = arguments or {}
        self._cards: dict[str, CallCard] = {}
        self.run = run
        """The one that it makes on the record."""

    def compose(self) -> ComposeResult:
        yield VerticalScroll(classes="dialog tall", can_focus=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.attempt()

    @work
    async def attempt(self) -> None:
        await attempt(self, self._work())

    @work
    async def action_stop(self) -> None:
        await attempt(self, self._stop())

    async def _stop(self) -> None:
        if self.run:
            await self._desk.trials.find(self.run).stop()

    async def _work(self) -> None:
        trials = self._desk.trials
        trial = trials.find(self.run) if self.run else trials.begin(self._tool, self._arguments)
        self.run = trial.run
        async with aclosing(trial.follow()) as told:
            async for _, data in told:
                await self._hear(data)
        trial.is_seen = True

    async def _hear(self, data: Any) -> None:
        match data:
            case LiveCall():
                await self._show(data)
            case DeskQuestion():
                self.app.push_screen(QuestionScreen(self._desk, data))
            case {"request": request}:
                for each in self.app.screen_stack:
                    if isinstance(each, QuestionScreen) and each.question.request == request:
                        await each.close()

    async def _show(self, call: LiveCall) -> None:
        if call.call_id in self._cards:
            self._cards[call.call_id].show(CallCardContent.live(call))
            return
        card = self._cards[call.call_id] = CallCard(CallCardContent.live(call), unfolded=True)
        await self.query_one(VerticalScroll).mount(card)
        if len(self._cards) == 1:
            card.focus()

    @on(CallCard.Whole)
    def whole(self, event: CallCard.Whole) -> None:
        result = event.shown.result
        if result is not None:
            self.app.push_screen(
                FullTextDialog(f"{line(self._tool, 60)}, {count_text(len(result.text), 'character')}", result.text)
            )
