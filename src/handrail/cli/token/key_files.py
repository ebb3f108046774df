"""The key of this node and its tokens: beside the journal, unless the configuration says otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from handrail.app.node_state import KEY, opened_state
from handrail.cli.run_options import CliSetup
from handrail.core.errors import UsageError
from handrail.core.redact import Secret
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore

_LONGEST = 10_000


def key_file(setup: CliSetup) -> Path:
    return setup.config.node.identity or setup.journal.parent / KEY


def key_place(setup: CliSetup) -> str:
    """The place of this node's key, for people."""
    url = setup.config.state.url
    return str(key_file(setup)) if url is None or setup.config.node.identity is not None else str(url)


def new_identity(setup: CliSetup) -> Identity:
    """The key of this node, made now; a `UsageError` says that there is one."""
    if setup.config.state.url is None or setup.config.node.identity is not None:
        return Identity.create(key_file(setup))
    with opened_state(setup.config, setup.journal) as state:
        if state.has_identity(setup.config):
            raise UsageError(f"there is already a key at {key_place(setup)}; it is never replaced")
        return state.identity(setup.config)


def identity(setup: CliSetup) -> Identity:
    """The identity of this node; a `UsageError` says how to make one where there is none."""
    with opened_state(setup.config, setup.journal) as state:
        return state.identity(setup.config, create=False)


@contextmanager
def tokens(setup: CliSetup) -> Iterator[TokenStore]:
    """The tokens that this node issued, until the block ends."""
    with opened_state(setup.config, setup.journal) as state, closing(state.tokens()) as store:
        yield store


def read_token(path: str) -> Secret:
    """The token in a file; `-` is the standard input. A token is never an argument, which everybody here could see.

    Raises:
        UsageError: There is nothing to read.
    """
    if path == "-":
        return Secret(sys.stdin.read(_LONGEST).strip())
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return Secret(file.read(_LONGEST).strip())
    except OSError as error:
        why = f"cannot read the token in {path!r}: {error.strerror}"
        raise UsageError(f"{why}; give a file, or - for the input") from error
