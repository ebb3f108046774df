"""The notebook of a run: contexts that questions bring along, and calls of the tool `repl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from handrail.rlm.contexts import HeldContext
from handrail.rlm.repl import final_answers
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.turns import ReplArguments, ReplBlock, ReplResult
from handrail.run.code import notebook
from handrail.run.code.notebook import HostBindings
from handrail.sandbox.port import JSON


def contexts_of_message(number: int, held: HeldContext, values: Mapping[str, JSON]) -> HostBindings:
    """What a question brings along."""
    alias = f"context = {held.variable}\n" if number == 0 else ""
    return HostBindings(
        values={**values, **held.bind},
        source=f"{held.prelude}\n{alias}{final_answers.RESET}",
        serves=held.serves,
        serve=held.serve,
    )


@dataclass(frozen=True, slots=True)
class FinishedReplCall:
    """A call of the tool that has its result."""

    id: str
    asked: ReplArguments
    ran: ReplResult

    @property
    def codes(self) -> tuple[str, ...]:
        return self.asked.blocks

    @property
    def blocks(self) -> tuple[ReplBlock, ...]:
        return self.ran.blocks

    @property
    def after(self) -> str:
        """An answer that was not taken then must not be taken now."""
        return final_answers.UNREADY if self.ran.final is None else ""


class ReplNotebook(notebook.InterpreterNotebook[FinishedReplCall, ReplBridge]):
    """Knows of each call which question it belongs to."""

    @property
    def has_run(self) -> bool:
        """Whether any code of the model ran since the last question."""
        question = max((at for at, step in enumerate(self._steps) if isinstance(step, HostBindings)), default=0)
        done = (step for step in self._steps[question:] if isinstance(step, FinishedReplCall))
        return any(step.ran.blocks and not step.asked.contexts for step in done)
