"""The notebook of a run: contexts that questions bring along, and calls of the tool `repl`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from handrail.code import notebook
from handrail.code.calling import Caller, Remembered
from handrail.code.dumps import Dumps
from handrail.code.notebook import Given
from handrail.rlm.contexts import Held
from handrail.rlm.repl import finals
from handrail.rlm.repl.bridge import Bridge
from handrail.rlm.repl.turns import Asked, Block, Ran
from handrail.sandbox.port import JSON, Sandbox


def given(number: int, held: Held, values: Mapping[str, JSON]) -> Given:
    """What a question brings along."""
    alias = f"context = {held.variable}\n" if number == 0 else ""
    return Given(
        values={**values, **held.bind},
        source=f"{held.prelude}\n{alias}{finals.RESET}",
        serves=held.serves,
        serve=held.serve,
    )


@dataclass(frozen=True, slots=True)
class Done:
    """A call of the tool that has its result."""

    id: str
    asked: Asked
    ran: Ran

    @property
    def codes(self) -> tuple[str, ...]:
        return self.asked.blocks

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.ran.blocks

    @property
    def after(self) -> str:
        """An answer that was not taken then must not be taken now."""
        return finals.UNREADY if self.ran.final is None else ""


class Notebook(notebook.Notebook[Done, Bridge]):
    def __init__(
        self,
        sandbox: Sandbox,
        *,
        seed: int,
        source: str,
        functions: frozenset[str],
        bridge: Callable[[Caller, str], Bridge],
        recall: Callable[[str], Awaitable[Remembered]],
        dumps: Dumps | None = None,
    ) -> None:
        super().__init__(
            sandbox,
            seed=seed,
            source=f"{finals.FUNCTIONS}\n{source}",
            functions=functions.union(finals.CALLED),
            bridge=bridge,
            recall=recall,
            dumps=dumps,
            reset=finals.RESET,
        )

    @property
    def has_run(self) -> bool:
        """Whether any code of the model ran since the last question."""
        question = max((at for at, step in enumerate(self._steps) if isinstance(step, Given)), default=0)
        done = (step for step in self._steps[question:] if isinstance(step, Done))
        return any(step.ran.blocks and not step.asked.contexts for step in done)
