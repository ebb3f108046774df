"""Answering a call that waits for a person, from another process than the one that asked."""

from __future__ import annotations

import asyncio
import getpass
from typing import Literal

from handrail.cli import text
from handrail.cli.ids import resolve_id
from handrail.cli.output.timeline import ERASED
from handrail.cli.output.view import CommandView, tell
from handrail.core.display import exact_json
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.core.ports import Clock, SystemClock
from handrail.journal.places import JournalPlace
from handrail.journal.waiting_questions import WaitingQuestion


def find(view: CommandView, request: str) -> WaitingQuestion:
    """The question that is meant.

    Raises:
        UsageError: It does not wait; the error lists what does.
    """
    with view.reader() as reader:
        waiting = reader.unanswered()
        fits = [each for each in waiting if request and each.startswith(request)]
        if not fits:
            others = f"these do: {', '.join(map(repr, waiting))}" if waiting else "nothing does"
            raise UsageError(f"no request {request!r} waits for an answer; {others}")
        entry = waiting[resolve_id(request, fits, "request")]
        return WaitingQuestion.read(reader, entry)


def describe(view: CommandView, waiting: WaitingQuestion) -> None:
    """Say exactly what will run, beside the answer."""
    question = waiting.asked
    agents = () if question.asked is None else question.asked.agents
    whose = f" for {text.printable(' → '.join(agents))}" if agents else ""
    tell(f"{text.printable(question.tool)} asks to run{whose} with these arguments:")
    arguments = ERASED if question.arguments is None else exact_json(question.arguments)
    for line in arguments.split("\n"):
        tell(f"  {line}")
    asked = question.asked
    if asked is not None and asked.why:
        tell(f"You are asked because {text.printable(asked.why)}.")
    if asked is not None and waiting.shown == "masked":
        fields = ", ".join(place.removeprefix("/") for place in asked.secrets)
        tell(f"Masked fields are declared as secret ({text.printable(fields)}).")
    tell(
        f"call {text.printable(question.call_id)} of run {text.printable(question.run)}, asked {view.when(question.at)}"
    )


def login_name() -> str:
    """The name of whoever runs this; a `UsageError` asks for --by where the machine knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise UsageError("your login name is unknown here; give your name with --by NAME") from error


def give(
    path: JournalPlace,
    question: ConfirmationRequested,
    decision: Literal["allow", "deny"],
    by: str,
    reason: str = "",
    clock: Clock = SystemClock(),
) -> ConfirmationAnswered:
    """Record a decision. It is on disk when this returns."""
    from handrail.journal.person_answers import answer  # it loads the journal, which other commands do not need

    return asyncio.run(answer(path, question, decision, by=by, reason=reason, clock=clock))
