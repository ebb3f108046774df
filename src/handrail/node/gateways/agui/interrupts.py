"""Names for questions that wait, which a frontend gives back: the run and the question in one text."""

from __future__ import annotations

from handrail.node.gateways.request_parsing import refuse_field

_BETWEEN = ":"


def interrupt_id(run: str, request: str) -> str:
    return f"{run}{_BETWEEN}{request}"


def run_of_interrupt(id: str, param: str) -> tuple[str, str]:
    """The run and the question.

    Raises:
        BusError: It is no name that this node gave.
    """
    run, between, request = id.rpartition(_BETWEEN)
    if not between or not run or not request:
        refuse_field(param, f"{id[:60]!r} is not an interrupt of this node")
    return run, request
