"""Everything that can be looked at beside conversations, for the page and for the terminal program."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from handrail.app.opened import App
from handrail.desk.asking import Asking
from handrail.desk.feed import News
from handrail.desk.views.proofs import ProofViews
from handrail.desk.views.record import Record
from handrail.desk.views.settings import SettingsView
from handrail.desk.views.tools import ToolViews
from handrail.desk.views.trying import Frame, tried


class DeskViews:
    """The views share one reading of the journal."""

    def __init__(
        self, app: App, asking: Asking, news: News, *, writable: bool = False, home: Path | None = None
    ) -> None:
        record = Record(app.journal.path)
        self.tools = ToolViews(app, record)
        self.proofs = ProofViews(record)
        self.settings = SettingsView(app, writable=writable, home=home)
        self._app = app
        self._asking = asking
        self._news = news

    def tried(self, name: str, arguments: dict[str, Any] | str) -> AsyncGenerator[Frame, None]:
        """Run one tool, and hear how it goes. Close it to cancel the call.

        Raises:
            UsageError: There is no such tool.
        """
        return tried(self._app, self._asking, self._news, self.tools.find(name).scoped_name, arguments)
