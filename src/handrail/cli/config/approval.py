"""The approval that a configuration needs before a command uses it: asked for at a terminal, demanded elsewhere."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handrail.cli import text
from handrail.cli.confirm.answers import login_name
from handrail.cli.output.view import ask, tell
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.config.powers import Powers, powers_of
from handrail.config.values import Config
from handrail.core.errors import UsageError


def require_approval(config: Config) -> None:
    """Return when the configuration may be used. At a terminal the person is asked, once.

    Raises:
        UsageError: It may not, with what it would do and how to approve it.
    """
    powers, approvals = powers_of(config), Approvals.here()
    why = approvals.missing_approval(config.file, powers)
    if why is None or config.file is None:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(refusal_message(config.file, powers, why))
    describe_powers(config.file, powers, why)
    if not ask("Allow it, now and later?"):
        raise UsageError(f"{str(config.file)!r} is not approved, so nothing was done")
    approvals.approve_config(config.file, powers, by=login_name())


def check_approved(config: Config) -> Config:
    """The configuration, if it may be used; for one that is read again, when nobody can be asked.

    Raises:
        UsageError: It may not, with what it would do and how to approve it.
    """
    powers = powers_of(config)
    why = Approvals.here().missing_approval(config.file, powers)
    if why is not None and config.file is not None:
        raise UsageError(refusal_message(config.file, powers, why))
    return config


def is_approved(config: Config) -> bool:
    return Approvals.here().missing_approval(config.file, powers_of(config)) is None


@contextmanager
def keep_approval(config: Config, file: Path) -> Iterator[None]:
    """Approve the file as it is after the block, if it could be used before: the person who runs this wrote the
    difference."""
    usable = is_approved(config)
    yield
    powers = powers_of(load_config(file))
    if usable and powers.lines:
        Approvals.here().approve_config(file, powers, by=login_name())


def refusal_message(file: Path, powers: Powers, why: str) -> str:
    """Why a configuration is not used, with everything that it would do and the command that approves it."""
    return (
        f"{str(file)!r} is not used: {why}. It would {'; '.join(powers.lines)}."
        f" Check it, and if you trust it, run: {approve_command(file)}"
    )


def approve_command(file: Path) -> str:
    """The command that approves a configuration, from the folder that the person stands in."""
    here = os.path.realpath(file) == os.path.realpath(Path.cwd() / file.name)
    return "handrail approve" if here else f"handrail approve --config {shlex.quote(str(file))}"


def describe_powers(file: Path, powers: Powers, why: str) -> None:
    """Everything that the configuration would do beyond the defaults, for a person to look at."""
    tell()
    tell(f"{text.printable(str(file))} would:")
    for line in powers.lines:
        tell(f"  {text.printable(line)}")
    tell(f"You are asked because {text.printable(why)}.")
    if any(line.startswith(("run Python", "run the program")) for line in powers.lines):
        tell("What it runs can do anything on this machine that you can. Check its files first.")
