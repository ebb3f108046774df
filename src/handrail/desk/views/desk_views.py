"""Everything that can be looked at beside conversations, for the page and for the terminal program."""

from __future__ import annotations

from pathlib import Path

from handrail.app.app import App
from handrail.desk.views.journal_index import JournalIndex
from handrail.desk.views.proofs import ProofViews
from handrail.desk.views.settings import SettingsView
from handrail.desk.views.tools import ToolViews


class DeskViews:
    """The views share one reading of the journal."""

    def __init__(self, app: App, *, writable: bool = False, home: Path | None = None) -> None:
        record = JournalIndex(app.journal.path)
        self.tools = ToolViews(app, record)
        self.proofs = ProofViews(record, app.state.conversations())
        self.settings = SettingsView(app, writable=writable, home=home)
