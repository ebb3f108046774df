"""Side effects that began although a person had denied them, in entries that are otherwise intact: for the audit."""

from __future__ import annotations

from handrail.core.events import CallIntended, ConfirmationAnswered
from handrail.journal.entry import decode_event

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
