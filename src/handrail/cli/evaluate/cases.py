"""The file of `handrail eval`: what is said, which calls would be right, and what tools answer instead of running.

models = ["local", "openai:gpt-5"]
system = "Be brief."

[results]
refund = "refunded"

[[case]]
id = "refund"
say = "Refund order 17."
calls = [{ tool = "refund", arguments = { order = "17" } }]
answer = ["refunded"]
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.cli.probe.cases import ProbeExpectedCall
from handrail.core.errors import UsageError
from handrail.core.messages import Conversation


class EvalExpectedCall(Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] | None = None
    """For each argument the right value, or a list of right values; None judges only the choice of the tool."""

    def expected(self) -> ProbeExpectedCall:
        if self.arguments is None:
            return ProbeExpectedCall(self.tool)
        values = {name: value if isinstance(value, list) else [value] for name, value in self.arguments.items()}
        return ProbeExpectedCall(self.tool, values)


class EvalCase(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    say: str
    system: str | None = None
    """Instead of that of the file."""
    calls: tuple[EvalExpectedCall, ...] | None = None
    """The right calls, in any order. An empty list means that no call is right; None judges no calls."""
    answer: str | tuple[str, ...] = ()
    """What the answer must have in it, whatever its capitals."""

    @property
    def words(self) -> tuple[str, ...]:
        return (self.answer,) if isinstance(self.answer, str) else self.answer


class EvalFile(Struct, frozen=True, forbid_unknown_fields=True):
    case: tuple[EvalCase, ...]
    models: tuple[str, ...] = ()
    system: str | None = None
    results: dict[str, Any] = {}
    """What each tool, by its name, answers instead of running."""

    def conversation(self, case: EvalCase) -> Conversation:
        system = self.system if case.system is None else case.system
        said = Conversation() if system is None else Conversation().supervised(system)
        return said.say(case.say)


def read_cases(path: Path) -> EvalFile:
    """The cases of a TOML or JSON file.

    Raises:
        UsageError: There is no such file, or it is not a file of cases.
    """
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
    try:
        found = decode(path.read_bytes(), type=EvalFile)
    except OSError as error:
        raise UsageError(f"the cases {str(path)!r} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"{path}: is not a file of cases: {error}") from error
    if not found.case:
        raise UsageError(f"{path}: has no case; write one as [[case]], with id and say")
    twice = [id for id, count in Counter(case.id for case in found.case).items() if count > 1]
    if twice:
        raise UsageError(f"{path}: two cases have the id {twice[0]!r}; rename one")
    return found
