"""The ids of responses and of their items. Each names the run that made it, so the journal finds it after a restart.

The run of a stored response has an id of its own form, `run_<id>_r<n>`: no other run, not even that of a response with
`store: false`, can be found as a response. `n` is how many of the run's first messages (0 or 1) are the `instructions`
of that request, which the next one does not inherit. The response is `resp_<id>_r<n>`, an item `msg_<id>_r<n>_<part>`.
"""

from __future__ import annotations

import re

from handrail.core.ids import NewId
from handrail.node.gateways.request import GatewayRequest

_STORED_RUN = re.compile(r"run_([0-9a-z]{8,120}_r[01])")
_RESPONSE = re.compile(r"resp_([0-9a-z]{8,120}_r([01]))")
_ITEM = re.compile(r"(?:msg|rs|fc|mcp|ig)_([0-9a-z]{8,120}_r[01])_[0-9a-z_]+")
_LATER_PART = re.compile(r"msg_[0-9a-z]+_r[01]_[0-9]+_[0-9]+")
_RUN = "run_"


def run_id_for_request(run: str, asked: GatewayRequest) -> str:
    """The run that answers a request: of an answer that is stored, one that its id leads to."""
    return f"{run}_r{asked.instructions}" if asked.store else run


def possible_run_ids(run: str) -> tuple[str, ...]:
    """Every id that `run_id_for_request` can make of a request."""
    return run, f"{run}_r0", f"{run}_r1"


def response_id_for_request(new_id: NewId, run: str, asked: GatewayRequest) -> str:
    """The id of the answer to a request: one that leads to its run, if it can be asked for again."""
    found = _STORED_RUN.fullmatch(run) if asked.store else None
    return new_id("resp") if found is None else f"resp_{found[1]}"


def run_of_response(response: str) -> tuple[str, int] | None:
    """The run of a response and its number of instructions; None if no stored response can have this id."""
    found = _RESPONSE.fullmatch(response)
    return None if found is None else (_RUN + found[1], int(found[2]))


def item_id(kind: str, response: str, part: str) -> str:
    return f"{kind}_{response.removeprefix('resp_')}_{part}"


def response_id_of_item(item: str) -> str | None:
    """The response that an item is of; None if the id was not made here."""
    found = _ITEM.fullmatch(item)
    return None if found is None else f"resp_{found[1]}"


def is_unrecorded(item: str) -> bool:
    """Whether a record does not have this item, though the response had it: what the model thought, and what it said
    after that in the same reply, which the record has in one message with what it said before."""
    return item.startswith("rs_") or _LATER_PART.fullmatch(item) is not None
