"""The journal: the record of every call, its proofs, audits and bundles.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.journal.auditing import (
        AuditReport as AuditReport,
        Receipt as Receipt,
        audit as audit,
        export_run as export_run,
        prove as prove,
    )
    from handrail.journal.in_memory import InMemoryJournal as InMemoryJournal
    from handrail.journal.journal import JournalTiming as JournalTiming, SqliteJournal as SqliteJournal
    from handrail.journal.keys import Signer as Signer, Verifier as Verifier
    from handrail.journal.person_answers import answer as answer, settle as settle
    from handrail.journal.postgres_journal import PostgresJournal as PostgresJournal
    from handrail.journal.reader import JournalReader as JournalReader, erase as erase
    from handrail.journal.telemetry import EventRing as EventRing, Telemetry as Telemetry

export_lazily(
    __name__,
    {
        "handrail.journal.person_answers": "answer settle",
        "handrail.journal.auditing": "AuditReport Receipt audit export_run prove",
        "handrail.journal.in_memory": "InMemoryJournal",
        "handrail.journal.journal": "JournalTiming SqliteJournal",
        "handrail.journal.keys": "Signer Verifier",
        "handrail.journal.postgres_journal": "PostgresJournal",
        "handrail.journal.reader": "JournalReader erase",
        "handrail.journal.telemetry": "EventRing Telemetry",
    },
)
