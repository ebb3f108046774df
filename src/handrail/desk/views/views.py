"""Everything that can be looked at beside conversations, for the page and for the terminal program."""

from __future__ import annotations

from pathlib import Path

from handrail.app.opened import App
from handrail.desk.views.proofs import ProofViews
from handrail.desk.views.record import Record
from handrail.desk.views.settings import SettingsView
from handrail.desk.views.tools import ToolViews


class DeskViews:
    """The views share one reading of the journal."""

    def __init__(self, app: App, *, writable: bool = False, home: Path | None = None) -> None:
        record = Record(app.journal.path)
        self.tools = ToolViews(app, record)
        self.proofs = ProofViews(record)
        self.settings = SettingsView(app, writable=writable, home=home)
