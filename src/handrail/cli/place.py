"""Which journal a command looks at."""

from __future__ import annotations

from pathlib import Path

from handrail.core.errors import JournalError

DEFAULT = Path(".handrail") / "journal.db"
_HOW = "a program makes one with SqliteJournal.open(PATH) and Executor(…, journal=…)"


def find_journal(named: Path | None, start: Path) -> Path:
    """The journal of this name; without one, the default in this folder or in the nearest one above that has it.

    Raises:
        JournalError: There is none, with how to make one.
    """
    if named is not None:
        if not named.is_file():
            raise JournalError(f"there is no journal at {str(named)!r}; check the path, or make one: {_HOW}")
        return named
    for folder in (start, *start.parents):
        if (found := folder / DEFAULT).is_file():
            return found
    raise JournalError(
        f"there is no {str(DEFAULT)!r} in {str(start)!r} or above; name a journal with --journal PATH"
        f" or HANDRAIL_JOURNAL, or make one: {_HOW}"
    )
