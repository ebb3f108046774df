"""Whose things are: who asks now, and which conversations and runs are theirs.

A caller goes on with, lists and reads their own and no others. Whoever runs this program
is `local`, and so are the conversations that were saved at its command line. The id of
any other conversation begins with a mark of its owner; of a run, the record says for whom it began.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from handrail.core.canonical import digest
from handrail.core.context import LOCAL
from handrail.core.events import RunStarted
from handrail.journal.reader import JournalReader

_MARKED = re.compile(r"of-[0-9a-f]{16}\.")


class CurrentCaller:
    """Who sent the request that is being answered; it travels with the task that answers it."""

    def __init__(self) -> None:
        self._principal: ContextVar[str | None] = ContextVar("handrail-asking", default=None)

    def now(self, principal: str) -> None:
        """This one asks from here on."""
        self._principal.set(principal)

    def owns_conversation(self, id: str) -> bool:
        """Nothing belongs to nobody."""
        principal = self._principal.get()
        return principal is not None and owns_conversation(principal, id)

    def owns_run(self, reader: JournalReader, run: str) -> bool:
        first = next(reader.events(run), None)
        return isinstance(first, RunStarted) and first.principal == self._principal.get()


def owner_prefix(principal: str) -> str:
    """What the ids of a caller's conversations begin with."""
    return "" if principal == LOCAL.id else f"of-{digest(principal).rpartition(':')[2][:16]}."


def owns_conversation(principal: str, id: str) -> bool:
    marked = _MARKED.match(id)
    return (marked[0] if marked else "") == owner_prefix(principal)
