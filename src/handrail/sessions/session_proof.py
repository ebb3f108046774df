"""What a session can show of what it did: its journal, audited, exported, or as one receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from handrail.journal.auditing import AuditReport, Receipt


class SessionProof(Struct, frozen=True):
    """The record of one run in a journal on disk."""

    path: Path
    run: str

    def verify(self) -> AuditReport:
        """Check the whole journal: every entry, body and signature, nothing believed."""
        from handrail.journal.auditing import audit  # SQLite and cryptography load when they are used

        return audit(self.path)

    def export(self, folder: str | Path) -> Path:
        """Write the run as a proof bundle, for others to verify."""
        from handrail.journal.auditing import export_run

        return export_run(self.path, self.run, folder)

    def receipt(self, call_id: str) -> Receipt:
        from handrail.journal.auditing import prove

        return prove(self.path, call_id, run=self.run)
