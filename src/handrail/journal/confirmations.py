"""Answers to questions, as far as a journal was read: the first answer is the one that counts.

A writer asks which questions have one, and the audit which side effects began although a person had denied them.
"""

from __future__ import annotations

import sqlite3

from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested
from handrail.journal.entry import decode_event

_ANSWERS = """
SELECT leaf FROM entry WHERE run = :run AND type = 'confirmation.answered' AND seq < :size AND seq >= coalesce(
    (SELECT first FROM span WHERE run = :run), (SELECT coalesce(max(size), 0) FROM checkpoint)
) ORDER BY seq
"""
_REQUESTED, _ANSWERED, _FINISHED = "confirmation.requested", "confirmation.answered", "run.finished"
NOTED = frozenset((_REQUESTED, _ANSWERED, _FINISHED))
"""The kinds of entries that `FirstAnswers.take` wants to know."""


class FirstAnswers:
    """The first answer to each question of the runs that a writer works on. A run is forgotten when it ends."""

    def __init__(self) -> None:
        self._of_run: dict[str, dict[str, ConfirmationAnswered | None]] = {}
        """By run, as its column in the table has it, and by request."""

    def take(self, kind: str, run: str, leaf: bytes) -> None:
        """Note an entry that was written, here or by another process."""
        if kind == _FINISHED:
            self._of_run.pop(run, None)
        elif kind == _REQUESTED:
            event = decode_event(leaf, None)
            if isinstance(event, ConfirmationRequested):
                self._of_run.setdefault(run, {}).setdefault(event.request, None)
        elif kind == _ANSWERED and run in self._of_run:
            event = decode_event(leaf, None)
            if isinstance(event, ConfirmationAnswered) and self._of_run[run].get(event.request) is None:
                self._of_run[run][event.request] = event

    def answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        return self._of_run.get(run, {}).get(request)

    def learn(self, connection: sqlite3.Connection, run: str, request: str, size: int) -> None:
        """Look among the first entries of the journal for the answer to a question that another process asked."""
        if request in self._of_run.get(run, {}):
            return
        known = self._of_run.setdefault(run, {})
        for (leaf,) in connection.execute(_ANSWERS, {"run": run, "size": size}):
            event = decode_event(leaf, None)
            if isinstance(event, ConfirmationAnswered) and known.get(event.request) is None:
                known[event.request] = event
        known.setdefault(request, None)


_READ = frozenset(("confirmation.answered", "call.intended"))


class DenialChecks:
    """The first answer to each question, and the side effects that did not heed it."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], ConfirmationAnswered] = {}
        """By run and request."""
        self._denied: dict[tuple[str, str], ConfirmationAnswered] = {}
        """By run and call: the last denial of a call that nobody has allowed since."""

    def violation(self, kind: str, leaf: bytes) -> str | None:
        """Take the next entry; say what is wrong about it, if it begins an effect that a person denied.

        Raises:
            JournalError: It cannot be read.
        """
        if kind not in _READ:
            return None
        event = decode_event(leaf, None)
        if isinstance(event, ConfirmationAnswered):
            self._take(event)
        elif isinstance(event, CallIntended) and event.side_effects:
            return self._ran_after(event)
        return None

    def _take(self, answer: ConfirmationAnswered) -> None:
        if self._answers.setdefault((answer.run, answer.request), answer) is not answer:
            return  # the first answer is the answer
        if answer.decision == "deny":
            self._denied[answer.run, answer.call_id] = answer
        else:
            self._denied.pop((answer.run, answer.call_id), None)

    def _ran_after(self, intent: CallIntended) -> str | None:
        denial = self._denied.get((intent.run, intent.call_id))
        if intent.grant is not None:
            given = self._answers.get((intent.run, intent.grant))
            denial = given if given is not None and given.decision == "deny" else None
        if denial is None:
            return None
        return (
            f"the call {intent.call_id!r} of {intent.tool!r} ran after {denial.by!r} had denied it ({denial.request})"
        )
