"""The record: which runs there were, what happened in one, whether all of it verifies; a receipt, a bundle."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from handrail.desk.tui.dialogs import FullTextDialog, LineDialog, save_download
from handrail.desk.tui.formatting import MUTED, attempt, count_text, line, moment
from handrail.desk.views.proofs import ProofViews, RunList, file_name_of_id
from handrail.desk.views.values import EntryRow, RunPage, RunRow
from handrail.journal.auditing import AuditReport, audit, export_run
from handrail.journal.places import JournalPlace

_RUNS = 100
_PIECE = 100
_SHOWN = 50
_NOT_PROVEN = (
    "Not proven: that the key is the right one, since it came with the journal; that the",
    "runtime told the truth when it wrote; that nothing happened outside it.",
    "`handrail proof verify --key … --against …` proves more.",
)


class ProofScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("slash", "search", "Search"),
        Binding("v", "verify", "Verify all"),
        Binding("r", "receipt", "Receipt"),
        Binding("x", "export", "Export"),
        Binding("tab", "app.focus_next", "Entries", show=True),
    ]

    def __init__(self, views: ProofViews, journal: JournalPlace, current: str) -> None:
        super().__init__()
        self._views = views
        self._journal = journal
        self._current = current
        self._runs: tuple[RunRow, ...] = ()
        self._more = False
        """Whether there are runs before the last of them."""
        self._entries: tuple[EntryRow, ...] = ()
        self._run = ""
        self._count = 0

    def compose(self) -> ComposeResult:
        yield Static("The record", classes="title")
        yield Input(placeholder="/ searches runs, titles and tools", id="search", compact=True)
        with Horizontal(classes="columns"):
            yield OptionList(id="runs", classes="list", compact=True)
            yield OptionList(id="entries", classes="page", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#runs").focus()
        self.load()

    @on(Input.Changed)
    def searched(self) -> None:
        self.load()

    @on(Input.Submitted)
    def found(self) -> None:
        self.query_one("#runs").focus()

    def action_search(self) -> None:
        self.query_one(Input).focus()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        found = await attempt(self, self._views.runs(limit=_RUNS, search=self.query_one(Input).value))
        if found is None:
            return
        self._runs = ()
        options = self.query_one("#runs", OptionList)
        options.clear_options()
        self._put_runs(found)
        ids = [each.run for each in found.runs]
        if ids:
            options.highlighted = ids.index(self._current) if self._current in ids else 0

    @work(exclusive=True, group="load")
    async def load_more(self) -> None:
        last, search = self._runs[-1].run, self.query_one(Input).value
        if (found := await attempt(self, self._views.runs(last, _RUNS, search))) is not None:
            self._put_runs(found)

    def _put_runs(self, found: RunList) -> None:
        self._runs, self._more = (*self._runs, *found.runs), found.more
        self.query_one("#runs", OptionList).add_options(Option(_run_row(each)) for each in found.runs)

    @on(OptionList.OptionHighlighted, "#runs")
    def looked_at(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._runs):
            self.show_run(self._runs[event.option_index].run)
        if self._more and event.option_index == len(self._runs) - 1:
            self.load_more()

    @work(exclusive=True, group="run")
    async def show_run(self, run: str) -> None:
        page = await attempt(self, self._views.run(run, limit=_PIECE))
        entries = self.query_one("#entries", OptionList)
        entries.clear_options()
        self._run, self._entries, self._count = run, (), 0
        if page is None:
            return
        self._put(page)
        title = f"{line(page.row.title, 30)} · " if page.row.title else ""
        state = f"{count_text(page.count, 'entry')}, {line(page.row.state, 30)}"
        self.query(".title").first(Static).update(Content(f"The record · {title}{state} · {line(run, 40)}"))

    def _put(self, page: RunPage) -> None:
        entries = self.query_one("#entries", OptionList)
        self._entries, self._count = (*self._entries, *page.entries), page.count
        entries.add_options(Option(_entry_row(each)) for each in page.entries)

    @on(OptionList.OptionHighlighted, "#entries")
    def near_the_end(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index == len(self._entries) - 1 < self._count - 1:
            self.read_on(self._run, len(self._entries))

    @work(exclusive=True, group="on")
    async def read_on(self, run: str, first: int) -> None:
        page = await attempt(self, self._views.run(run, first, _PIECE))
        if page is not None and (self._run, len(self._entries)) == (run, first):
            self._put(page)

    @on(OptionList.OptionSelected, "#entries")
    async def opened(self, event: OptionList.OptionSelected) -> None:
        entry = self._entries[event.option_index]
        body = entry.body
        if body is None and entry.body_size and not entry.erased:
            found = await attempt(self, self._views.body(self._run, entry.seq))
            body = None if found is None else found.body
        said = "(erased)" if entry.erased else body or "(no body)"
        text = f"{entry.says}\n\nleaf\n{entry.leaf}\n\nbody\n{said}\n\nproof\n" + "\n".join(entry.proof)
        self.app.push_screen(FullTextDialog(f"entry {entry.seq}, {entry.type}", text))

    @on(OptionList.OptionSelected, "#runs")
    def into(self) -> None:
        self.query_one("#entries").focus()

    # ── proving ──────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="verify")
    async def action_verify(self) -> None:
        self.notify("Checking every entry …", timeout=1)
        report = await attempt(self, asyncio.to_thread(audit, self._journal))
        if report is not None:
            self.app.push_screen(FullTextDialog("The record", audit_verdict(report)))

    @work(exclusive=True, group="files")
    async def action_receipt(self) -> None:
        at = self.query_one("#entries", OptionList).highlighted
        call = self._entries[at].call_id if at is not None and at < len(self._entries) else ""
        if not call:
            self.notify("Select an entry of a call first: Tab, then the arrow keys.")
            return
        file = await attempt(self, self._views.receipt(self._run, call))
        if file is None:
            return
        note = "It contains the arguments or the result of the call: give it only to people who may read them."
        await save_download(self, "Write the receipt to which file?", file, note)

    @work(exclusive=True, group="files")
    async def action_export(self) -> None:
        if not self._run:
            return
        note = "A new folder with the run and its own verifier. It contains all arguments and results."
        path = await self.app.push_screen_wait(
            LineDialog("Export to which folder?", f"{file_name_of_id(self._run)}.proof", note=note)
        )
        if path is None:
            return
        folder = await attempt(self, asyncio.to_thread(_export, self._journal, self._run, path))
        if folder is not None:
            self.notify(line(str(folder)), title="Exported", markup=False)


def audit_verdict(report: AuditReport) -> str:
    """What an audit found, and what that does not prove."""
    what = f"{count_text(report.entries, 'entry')}, {count_text(report.checkpoints, 'checkpoint')}"
    lines = [
        f"VERIFIED: {what}" if report.ok else f"NOT VERIFIED: {count_text(len(report.problems), 'problem')} in {what}",
        "",
    ]
    lines += [
        f"{'journal' if each.index is None else f'entry {each.index}'}: {each.why}" for each in report.problems[:_SHOWN]
    ]
    if report.unsigned_tail:
        lines.append(
            f"The last {count_text(report.unsigned_tail, 'entry')} are in order, but no checkpoint covers them yet."
        )
    if report.erased:
        lines.append(f"Of {report.erased} erased bodies only the digests are left.")
    return "\n".join((*lines, *_NOT_PROVEN))


def _export(journal: JournalPlace, run: str, path: str) -> Path:
    return export_run(journal, run, Path(path).expanduser())


def _run_row(row: RunRow) -> Content:
    style = "$text-error" if row.failed or row.in_doubt else MUTED
    return Content.assemble(
        (moment(row.started, "%m-%d %H:%M "), MUTED),
        line(row.title or row.run, 18),
        (
            f"\n  {count_text(row.calls, 'call')}"
            f"{f', {row.failed} failed' if row.failed else ''}, {line(row.state, 12)}",
            style,
        ),
    )


def _entry_row(entry: EntryRow) -> Content:
    return Content.assemble((moment(entry.at, "%H:%M:%S "), MUTED), line(entry.says, 200))
