"""What a person is told when something failed, with how to go back."""

from __future__ import annotations

import logging
from typing import Literal

from msgspec.structs import replace

from handrail.core.display import browser_safe_text
from handrail.core.errors import HandrailError, LimitExceeded, ModelError, UsageError, describe_exception
from handrail.core.events import CallSettled
from handrail.core.ids import NewId
from handrail.core.messages import Conversation
from handrail.core.ports import Clock
from handrail.core.redact import redact_text
from handrail.desk.turns import first_words_from, turn_starts
from handrail.desk.values import Alert

logger = logging.getLogger(__name__)

Kind = Literal["tool", "model", "limit", "stopped"]
_LONGEST = 1_000
"""Characters of what an alert says."""


class Alerts:
    """Alerts of one conversation."""

    def __init__(self, conversation: str, clock: Clock, new_id: NewId) -> None:
        self._conversation = conversation
        self._clock = clock
        self._new_id = new_id

    def of(self, kind: Kind, message: str, said: Conversation) -> Alert:
        """An alert about the last turn of what was said."""
        upto = max(turn_starts(said.messages), default=0)
        return Alert(
            id=self._new_id("alert"),
            conversation=self._conversation,
            at=self._clock.now(),
            kind=kind,
            message=browser_safe_text(redact_text(message)[:_LONGEST]),
            upto=upto,
            words=browser_safe_text(first_words_from(said.messages, upto)),
        )

    def of_call(self, event: CallSettled, said: Conversation) -> Alert:
        """An alert that a tool did not do what it was asked."""
        result = event.result
        problem = None if result is None else result.error
        why = problem.message if problem is not None else "" if result is None else result.text
        alert = self.of("tool", why or f"{event.tool} failed", said)
        code = "" if problem is None else problem.code
        return replace(alert, tool=event.tool, call_id=event.call_id, outcome=event.outcome, code=code)

    def of_error(self, error: BaseException, said: Conversation) -> Alert:
        """An alert that a turn failed."""
        kind: Kind = "stopped"
        match error:
            case LimitExceeded():
                kind = "limit"
            case ModelError() | UsageError():  # it gave no answer, or cannot be asked at all
                kind = "model"
            case HandrailError():
                pass
            case _:
                logger.error("a turn of %s failed", self._conversation, exc_info=error)
        message = str(error) if isinstance(error, HandrailError) else describe_exception(error)
        alert = self.of(kind, message, said)
        return replace(alert, code=error.code) if isinstance(error, ModelError) else alert
