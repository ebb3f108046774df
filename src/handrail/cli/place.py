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


def configured_journal(config: Path | None, start: Path) -> Path | None:
    """The journal that the configuration names, if there is one and it does.

    Raises:
        ConfigError: The file cannot be read.
    """
    from handrail.config.load import find_config, journal_in  # most commands are told by the folder alone

    found = find_config(config, start)
    return None if found is None else journal_in(found)


def journal_to_write(named: Path | None, configured: Path | None, home: Path, start: Path) -> Path:
    """Where a command writes: the journal that is named, configured, or near; else a new one at home."""
    if (told := named or configured) is not None:
        return told
    near = (folder / DEFAULT for folder in (start, *start.parents))
    return next((path for path in near if path.is_file()), home / DEFAULT)
