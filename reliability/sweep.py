"""Plays a row without a death to learn its moments, then once for each moment, and judges what came of the payment."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from handrail.journal import audit
from reliability.moments import Moment
from reliability.stage import Stage, Told

_PATIENCE = 60.0
"""Seconds for which a customer asks again. Two lives are enough but where something is not yet there again."""
_PAUSE = 0.5


class Row(Protocol):
    """One line of the table: a way on which a call comes to its tool."""

    @property
    def name(self) -> str:
        """The first column."""
        ...

    @property
    def killed(self) -> str:
        """Which processes are killed, and at which steps: the second column."""
        ...

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that its processes import, so that they are imported once for all."""
        ...

    def play(self, stage: Stage) -> None:
        """One life of the customer: ask for the payment, and return when they were told something, or are dead.

        It is played again after a death, and does then what a user would do: start what is dead, and ask again.
        """
        ...


class TrialOutcome(Struct, frozen=True):
    """What came of one payment."""

    died: Moment | None
    moments: tuple[Moment, ...]
    doubtful: bool
    """Whether a person had to look."""
    problems: tuple[str, ...]


class RowReport(Struct, frozen=True):
    """One line of the table as it was found."""

    name: str
    killed: str
    moments: int
    """At how many there was a death."""
    paid_once: int
    in_doubt: int
    """After how many of them a person had to look into the book first."""
    problems: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        return self.name, self.killed, f"{self.moments}", f"{self.paid_once}", f"{self.in_doubt}"


def sweep(
    row: Row,
    context: ForkServerContext,
    most: int | None = None,
    complain: Callable[[str], None] = lambda problem: None,
) -> RowReport:
    """Every moment of a row, or so many of them, spread evenly. What is wrong is told at once."""
    whole = play(row, context)
    problems = [f"{row.name}, nobody killed: {each}" for each in whole.problems]
    for each in problems:
        complain(each)
    moments = paid = doubtful = 0
    for moment in chosen(whole.moments, most):
        outcome = play(row, context, moment)
        if outcome.died is None:
            continue  # chunks and threads are not the same each time: this moment did not come
        moments += 1
        doubtful += outcome.doubtful
        paid += not outcome.problems
        for each in outcome.problems:
            problems.append(f"{row.name}, {outcome.died}: {each}")
            complain(problems[-1])
    return RowReport(row.name, row.killed, moments, paid, doubtful, tuple(problems))


def chosen(moments: Sequence[Moment], most: int | None) -> Iterator[Moment]:
    """All, or so many of them from the first to the last."""
    if most is None or most >= len(moments):
        yield from moments
        return
    for number in range(most):
        yield moments[(2 * number + 1) * len(moments) // (2 * most)]


def play(row: Row, context: ForkServerContext, moment: Moment | None = None) -> TrialOutcome:
    with tempfile.TemporaryDirectory(prefix="reliability-", ignore_cleanup_errors=True) as name:
        stage = Stage(Path(name), context, moment)
        try:
            doubtful, problems = _judge(row, stage)
        except (TimeoutError, AssertionError) as error:
            doubtful, problems = False, [f"it came to no end: {error}"]
        finally:
            stage.close()
        problems += _audited(stage.journal)
        problems += stage.logs() if problems else []
        return TrialOutcome(stage.died, tuple(stage.moments), doubtful, tuple(problems))


def _judge(row: Row, stage: Stage) -> tuple[bool, list[str]]:
    """Ask until the payment is made; what is wrong with what was done, and with what was told."""
    doubtful = False
    told: list[Told] = []
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        row.play(stage)
        stage.end_life()
        told.append(stage.heard())
        if wrong := _dishonest(told[-1], stage.payments, is_last=len(told) > 1):
            return doubtful, [*wrong, f"the customer was told {[each.text for each in told]}"]
        if told[-1].kind == "paid":
            return doubtful, []
        if told[-1].kind == "in doubt":
            doubtful = True
            if stage.settle(told[-1]):
                return doubtful, []
        elif told[-1].kind == "not paid":
            time.sleep(_PAUSE)
    return doubtful, [f"lost: asked {len(told)} times, and told {[each.text for each in told]}"]


def _dishonest(told: Told, payments: int, *, is_last: bool) -> list[str]:
    found = []
    if payments > 1:
        found.append(f"paid {payments} times")
    if told.kind == "paid" and payments == 0:
        found.append("claimed to be paid, and was not")
    if told.kind == "not paid" and payments:
        found.append("claimed not to be paid, and was")
    if told.kind == "nothing" and is_last:
        found.append("nobody was killed, and the customer was told nothing")
    return found


def _audited(journal: Path) -> list[str]:
    if not journal.exists():
        return []
    report = audit(journal)
    return [] if report.ok else [f"the journal does not verify: {report.problems}"]
