"""Giving a person's word on a call that waits for it, from another process than the one that asked."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path
from typing import Any, Literal

from handrail.cli import text
from handrail.cli.detail import ERASED
from handrail.cli.ids import resolve
from handrail.cli.view import View, tell
from handrail.core.confirmation import binding
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.core.exact import exact
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import has_masked
from handrail.core.unmask import holds_mask

Shown = Literal["whole", "masked", "hidden", "erased", "changed"]
"""How much of the arguments can be shown: `masked` hides only fields that are declared as secret, `hidden` more."""


def find(view: View, request: str) -> ConfirmationRequested:
    """The question that is meant.

    Raises:
        UsageError: It does not wait; the error lists what does.
    """
    with view.reader() as reader:
        waiting = {question.request: question for question in reader.pending()}
    fits = [each for each in waiting if request and each.startswith(request)]
    if not fits:
        others = f"these do: {', '.join(map(repr, waiting))}" if waiting else "nothing does"
        raise UsageError(f"no request {request!r} waits for an answer; {others}")
    return waiting[resolve(request, fits, "request")]


def shown(question: ConfirmationRequested) -> Shown:
    """How far what the record shows is what will run. The grant is bound to a hash of the real arguments."""
    asked = question.asked
    if asked is None:
        return "erased"
    binds = binding(asked.nonce, question.run, question.call_id, question.tool, asked.arguments, asked.definition)
    if binds == question.binds:
        return "whole"
    secrets = frozenset(asked.secrets)
    if holds_mask(_without(asked.arguments, secrets)):
        return "hidden"
    return "masked" if has_masked(asked.arguments, secrets) else "changed"


def describe(view: View, question: ConfirmationRequested) -> None:
    """Say exactly what will run, beside the answer."""
    tell(f"{text.visible(question.tool)} asks to run with these arguments:")
    arguments = ERASED if question.arguments is None else exact(question.arguments)
    for line in arguments.split("\n"):
        tell(f"  {line}")
    asked = question.asked
    if asked is not None and asked.why:
        tell(f"You are asked because {text.visible(asked.why)}.")
    if asked is not None and shown(question) == "masked":
        tell(f"Masked fields are declared as secret ({text.visible(', '.join(asked.secrets))}).")
    tell(f"call {text.visible(question.call_id)} of run {text.visible(question.run)}, asked {view.when(question.at)}")


def login_name() -> str:
    """Raises:
    UsageError: The machine knows no name for whoever runs this.
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise UsageError("your login name is not known here; say who you are with --by NAME") from error


def give(
    path: Path,
    question: ConfirmationRequested,
    decision: Literal["allow", "deny"],
    by: str,
    reason: str = "",
    clock: Clock = SystemClock(),
) -> ConfirmationAnswered:
    """Write the word down, and wait until it is."""
    from handrail.proof.answer import answer  # it loads the journal, which other commands do not need

    return asyncio.run(answer(path, question, decision, by=by, reason=reason, clock=clock))


def _without(value: Any, names: frozenset[str]) -> Any:
    """The same JSON value without the fields of these names."""
    match value:
        case dict():
            return {key: _without(item, names) for key, item in value.items() if key not in names}
        case list():
            return [_without(item, names) for item in value]
    return value
