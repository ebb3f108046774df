"""A question in the journal that nobody has answered, and how much of it can be shown to whoever would."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from handrail.core.confirmation import grant_binding
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import ConfirmationRequested
from handrail.core.secret_pointers import has_mask_at, holds_mask
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader, JournalRow

Shown = Literal["whole", "masked", "hidden", "erased", "changed"]
"""The part of the arguments that can be shown: `masked` hides only fields that are declared as secret, `hidden`
more."""


class WaitingQuestion(Struct, frozen=True):
    """A question that nobody has answered."""

    asked: ConfirmationRequested
    hides: bool
    """Whether the record hides a part of the arguments from this user."""

    @classmethod
    def read(cls, reader: JournalReader, entry: JournalRow) -> WaitingQuestion:
        """The question of an entry.

        Raises:
            JournalError: It cannot be read.
        """
        asked = reader.exact_event(entry)
        if not isinstance(asked, ConfirmationRequested):
            raise JournalError("the question cannot be read; run: handrail proof verify")
        return cls(asked, reader.hides(entry))

    @property
    def shown(self) -> Shown:
        """How far the record shows what will run. The approval is bound to a hash of the real arguments."""
        body, asked = self.asked.asked, self.asked
        if body is None:
            return "erased"
        if self.hides:
            return "hidden"
        if asked.binds == grant_binding(
            body.nonce, asked.run, asked.call_id, asked.tool, body.arguments, body.definition
        ):
            return "whole"
        if has_mask_at(body.arguments, body.secrets):
            return "masked"
        return "hidden" if holds_mask(body.arguments) else "changed"

    @property
    def unseen(self) -> str:
        """Why a person cannot see what would run, and what to do; empty if they can."""
        request = self.asked.request
        match self.shown:
            case "erased":
                return f"the arguments of {request!r} were erased, so nobody can see what would run; deny it"
            case "changed":
                return (
                    f"what is shown for {request!r} is not what would run: the record was changed;"
                    " run: handrail proof verify"
                )
            case "hidden":
                return (
                    f"a part of the arguments of {request!r} looks like a secret and is hidden here, and what"
                    " cannot be shown in full cannot be allowed; run this as the user who has the journal's key,"
                    " answer where the question was asked, or deny it"
                )
            case "whole" | "masked":
                return ""

    def refuse_unseen(self) -> None:
        """Return if a person can see what would run.

        Raises:
            UsageError: They cannot, with why and what to do.
        """
        if why := self.unseen:
            raise UsageError(why)


def find_waiting(journal: JournalPlace, run: str, request: str) -> WaitingQuestion | None:
    """A question of a run, if nobody has answered it yet.

    Raises:
        JournalError: The journal, or the question, cannot be read.
    """
    with JournalReader(journal) as reader:
        entry = reader.unanswered(run).get(request)
        return None if entry is None else WaitingQuestion.read(reader, entry)
