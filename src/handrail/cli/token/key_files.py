"""Where the key of this node and its tokens are: beside the journal, unless the configuration says otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from handrail.app.network_node import KEY, TOKENS
from handrail.cli.run_options import CliSetup
from handrail.core.errors import UsageError
from handrail.core.redact import Secret
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore

_LONGEST = 10_000


def key_file(setup: CliSetup) -> Path:
    return setup.config.node.identity or setup.journal.parent / KEY


def identity(setup: CliSetup) -> Identity:
    """The identity of this node; a `UsageError` says how to make one where there is none."""
    return Identity.load(key_file(setup))


@contextmanager
def tokens(setup: CliSetup) -> Iterator[TokenStore]:
    """The tokens that this node issued, until the block ends."""
    with closing(TokenStore(setup.journal.parent / TOKENS)) as store:
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
