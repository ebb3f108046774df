"""Which journal a command looks at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.core.errors import JournalError

if TYPE_CHECKING:
    from handrail.journal.places import JournalPlace

DEFAULT = Path(".handrail") / "journal.db"
_HOW = "a program makes one with SqliteJournal.open(PATH) and Executor(…, journal=…)"


def find_journal(named: JournalPlace | None, start: Path) -> JournalPlace:
    """The journal of this name; without one, the default in this folder or in the nearest one above that has it.

    Raises:
        JournalError: There is none, with how to make one; or it was found in a folder that is not the user's own.
    """
    if named is not None and not isinstance(named, Path):
        return named
    if named is not None:
        if not named.is_file():
            raise JournalError(f"there is no journal at {str(named)!r}; check the path, or make one: {_HOW}")
        return named
    for folder in (start, *start.parents):
        if (found := folder / DEFAULT).is_file():
            return _own(found)
    raise JournalError(
        f"there is no {str(DEFAULT)!r} in {str(start)!r} or above; name a journal with --journal PATH"
        f" or HANDRAIL_JOURNAL, or make one: {_HOW}"
    )


def configured_journal(config: Path | None, start: Path) -> JournalPlace | None:
    """The journal that the configuration names, if there is one and it does; that of a shared state before a file.

    Raises:
        ConfigError: The file cannot be read.
        UsageError: It names one outside its own folder, and is not approved.
    """
    from handrail.config.load import (  # most commands are told by the folder alone
        find_config,
        journal_in,
        load_config,
        state_in,
    )
    from handrail.state.url import StateUrl

    if (named := StateUrl.from_environment()) is not None:
        return named
    found = find_config(config, start)
    if found is not None and (state := state_in(found)) is not None:
        from handrail.cli.config.approval import check_approved

        check_approved(load_config(found))
        return state
    journal = None if found is None else journal_in(found)
    if found is None or journal is None:
        return None
    if not Path(os.path.realpath(journal)).is_relative_to(os.path.realpath(found.parent)):
        from handrail.cli.config.approval import check_approved

        check_approved(load_config(found))
    return journal


def journal_to_write(named: Path | None, configured: Path | None, home: Path, start: Path) -> Path:
    """The journal that a command writes to: the one that is named, configured or near; else a new one in the user's
    folder.

    Raises:
        JournalError: Nobody named it, and its folder is not the user's own.
    """
    if named is not None:
        return named
    if configured is not None:
        return _own(configured)
    near = (folder / DEFAULT for folder in (start, *start.parents))
    return _own(next((path for path in near if path.is_file()), home / DEFAULT))


def _own(journal: Path) -> Path:
    """The journal, in a folder that is the user's own. What lies beside it are keys and tokens."""
    from handrail.core.git_index import is_tracked  # help needs none of them
    from handrail.core.keyfile import UnsafeKeyFile, check_state_folder

    try:
        check_state_folder(journal.parent, alone=journal.parent.name == DEFAULT.parent.name)
        if is_tracked(journal):
            raise UnsafeKeyFile(f"{str(journal)!r} is not used: git tracks it; name another with --journal PATH")
    except UnsafeKeyFile as error:
        raise JournalError(str(error)) from error
    except OSError as error:
        raise JournalError(f"{str(journal.parent)!r} cannot be looked at: {error.strerror}") from error
    return journal
