"""`handrail proof verify`: whether the journal is what was written and signed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, answer_json, with_common_options, with_output_file
from handrail.core.errors import UsageError
from handrail.journal.auditing import AuditReport, audit
from handrail.journal.keys import Verifier

MANY = 20_000
"""Entries that take long enough for people to wonder."""
_SHOWN = 50


@cli_command(
    "verify",
    "handrail proof verify",
    "handrail proof verify --against journal.note --key 'example.org/journal+1a2b3c4d+AQ…'",
)
@click.option(
    "--against",
    "notes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="NOTE_FILE",
    help="A checkpoint of this journal that you kept elsewhere; can be given several times.",
)
@click.option("--key", metavar="VKEY", help="The verifier key that you trust: name+id+base64.")
@with_common_options
@with_output_file
def command(view: CommandView, notes: tuple[Path, ...], key: str | None) -> None:
    """Check every entry, body and checkpoint, and say what that proves.

    It also reports every side effect that ran although a person had denied it. The exit code is 0 if no problem was
    found, otherwise 1.
    """
    verifiers = None if key is None else [Verifier.parse(key)]
    known = [_read(path) for path in notes]
    with view.reader() as reader:
        size, named = reader.size(), reader.verifier_key
    with _waiting(size) as progress:
        report = audit(view.path, verifiers=verifiers, known=known, progress=progress)
    proven, not_proven = _proven(report, bool(known)), _not_proven(report, key is not None, bool(known))
    if view.as_json:
        told = {"key": key or named, "key_given": key is not None, "against": len(known)}
        answer_json({**text.builtins(report), **told, "proven": proven, "not_proven": not_proven})
    else:
        _print(report, key or named, proven, not_proven)
    if not report.ok:
        raise click.exceptions.Exit(1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as a checkpoint; give the file exactly as it was saved"
        ) from error


@contextmanager
def _waiting(size: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr for what takes a while."""
    if size < MANY or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking entries", total=size)
        yield lambda done: bar.update(task, completed=done)


def _print(report: AuditReport, key: str, proven: list[str], not_proven: list[str]) -> None:
    found = (*report.problems, *report.violations)
    for problem in found[:_SHOWN]:
        where = "journal" if problem.index is None else f"entry {problem.index}"
        answer(f"{where}: {text.printable(problem.why)}")
    if len(found) > _SHOWN:
        answer(f"… and {len(found) - _SHOWN} more; --json shows all")
    what = f"{text.count_text(report.entries, 'entry')}, {text.count_text(report.checkpoints, 'checkpoint')}"
    if report.ok:
        answer(f"VERIFIED: {what}", "good")
    elif not report.problems:
        ran = text.count_text(len(report.violations), "side effect")
        answer(f"INTACT, but {ran} ran after a denial: {what}", "bad")
    else:
        answer(f"NOT VERIFIED: {text.count_text(len(report.problems), 'problem')} in {what}", "bad")
    answer(f"signed by {text.printable(key)}", "dim")
    for title, sentences in (("Proven:", proven), ("Not proven:", not_proven)):
        if sentences:
            answer(title, "title")
        for sentence in sentences:
            answer(f"  that {sentence}")


def _proven(report: AuditReport, kept: bool) -> list[str]:
    if report.problems:
        return []
    signed = report.entries - report.unsigned_tail
    found = []
    if signed:
        found.append(
            f"the first {text.count_text(signed, 'entry')} are as the key's owner signed them: unchanged, in order"
        )
    if report.bodies:
        found.append(f"{text.count_text(report.bodies, 'body')} with arguments or results are as they were recorded")
    if kept:
        found.append("the journal agrees with the checkpoints that were kept elsewhere")
    return found


def _not_proven(report: AuditReport, key_given: bool, kept: bool) -> list[str]:
    found = []
    if report.problems:
        first = report.problems[0].index
        found.append("the journal is what was written" if first is None else f"anything from entry {first} on is true")
    if report.unsigned_tail:
        found.append(
            f"the last {text.count_text(report.unsigned_tail, 'entry')} are all there: no checkpoint covers them yet"
        )
    if report.erased:
        found.append(
            f"{text.count_text(report.erased, 'erased body')} said what you were told: only their digests are left"
        )
    if not key_given:
        found.append("the key is the right one: it came with the journal; give the key that you trust with --key")
    if not kept:
        found.append("nobody with the key rewrote the journal: keep checkpoints elsewhere, and use --against")
    return [*found, "the runtime told the truth when it wrote", "nothing happened outside the runtime"]
