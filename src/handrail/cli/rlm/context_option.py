"""What `--context` names: files and directories, or what is piped in."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from handrail.core.errors import UsageError
from handrail.rlm.contexts.load import Files

STDIN = Path("-")


def with_context(says: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `--context` as `contexts`."""
    return click.option(
        "--context",
        "contexts",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
        metavar="PATH",
        help=says,
    )


def context_of(paths: Sequence[Path]) -> Files | BinaryIO:
    """
    Raises:
        UsageError: Stdin is named beside others, or there is nothing in it.
    """
    if STDIN not in paths:
        return Files.of(*(path.absolute() for path in paths))
    if len(paths) > 1:
        raise UsageError("stdin is a context of its own; give --context - alone, or put the text into a file")
    piped = sys.stdin.buffer
    stream = piped if isinstance(piped, io.BufferedReader) else io.BufferedReader(piped)  # type: ignore[type-var]
    if not stream.peek(1):
        raise UsageError("there is no context: nothing was piped in; name files with --context, or pipe a text in")
    return stream
