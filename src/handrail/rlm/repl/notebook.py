"""What the notebook of a run is given: contexts that questions bring along, and finished calls of the tool `repl`."""

from __future__ import annotations

from collections.abc import Mapping

from handrail.rlm.contexts import HeldContext
from handrail.rlm.repl import final_answers
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.turns import ReplArguments, ReplResult
from handrail.run.code.notebook import HostBindings, InterpreterNotebook, RecordedCodeCall, RecordedCodeRun
from handrail.sandbox.port import JSON

ReplNotebook = InterpreterNotebook[ReplBridge]


def contexts_of_message(number: int, held: HeldContext, values: Mapping[str, JSON]) -> HostBindings:
    """What a question brings along."""
    alias = f"context = {held.variable}\n" if number == 0 else ""
    return HostBindings(
        values={**values, **held.bind},
        source=f"{held.prelude}\n{alias}{final_answers.RESET}",
        serves=held.serves,
        serve=held.serve,
    )


def finished_repl_call(id: str, asked: ReplArguments, ran: ReplResult) -> RecordedCodeCall:
    """A call of the tool that has its result. An answer that was not taken then must not be taken now."""
    blocks = tuple(RecordedCodeRun(each.ending, each.state, each.stdout) for each in ran.blocks)
    after = final_answers.UNREADY if ran.final is None else ""
    return RecordedCodeCall(id, asked.blocks, blocks, after, by_model=not asked.contexts)
