"""What following origins costs: the CPU time of a side effect in a session that has read 50 results, as a ratio.

Sessions of each policy take turns in one process, and a ratio is between two of the same round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import AsyncGenerator, Mapping

from bench.injection.domains.mail import read_mail, send_mail
from bench.injection.world import World
from handrail import Limits, Policy, Session, ToolCall
from handrail.confirm import Allow, Confirmation, Decision
from handrail.core.model_request import ModelRequest
from handrail.events import CallRequested, ModelEvent, ReplyFinished, TextDelta

READS = 50
CALLS = 50
TO = "anna.berg@north.example"


class ReadsThenSends:
    """A model that reads 50 mails and then sends as many to the address in the prompt. It notes when it began to."""

    name = "scripted"

    def __init__(self) -> None:
        self._made = 0
        self.sends_since = 0.0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        at = self._made
        self._made += 1
        if at == READS:
            self.sends_since = time.process_time()
        if at < READS:
            yield CallRequested(call=ToolCall(f"call-{at}", "read_mail", {"id": f"m{at}"}))
        elif at < READS + CALLS:
            body = f"Number {at}: the draft is fine, and the second page works. Regards, Robin"
            arguments = {"to": TO, "subject": f"Page {at}", "body": body}
            yield CallRequested(call=ToolCall(f"call-{at}", "send_mail", arguments))
        else:
            yield TextDelta(text="Done.")
        yield ReplyFinished(stop="end" if at >= READS + CALLS else "tool_calls", model=self.name)


class SaysYes:
    """An approver, for policies that ask."""

    def __init__(self) -> None:
        self.asked = 0

    async def decide(self, question: Confirmation) -> Decision:
        self.asked += 1
        return Allow("the person")


def _world() -> World:
    line = "The launch is on 3 March, the budget is 18,500 euros, and page {} needs another picture by Friday. "
    mails = {
        f"m{at}": {
            "id": f"m{at}",
            "from": f"person{at}@north.example",
            "from_name": f"Person {at}",
            "to": "me@home.example",
            "subject": f"Page {at} of the brochure",
            "body": "".join(line.format(at * 100 + number) for number in range(15)),
            "date": "2026-11-16",
            "folder": "inbox",
            "attachments": [],
        }
        for at in range(READS)
    }
    return World({"mails": mails, "outbox": {}})


async def _measured(policy: Policy) -> tuple[float, float]:
    """The CPU seconds of the sends, and of the whole."""
    model, world, person = ReadsThenSends(), _world(), SaysYes()
    limits = Limits(iterations=READS + CALLS + 1, same_answer=READS)
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        async with Session(
            model, tools=(read_mail, send_mail), policy=policy, approver=person, limits=limits, deps=world
        ) as session:
            await session.ask_async(f"Read my mails and write to {TO} about each of the pages.")
        ended = time.process_time()
    finally:
        gc.enable()
    assert len(world.rows("outbox")) == CALLS, "the calls should have run"
    return ended - model.sends_since, ended - begun


async def cost(policies: Mapping[str, Policy], rounds: int = 15) -> tuple[dict[str, float], dict[str, float]]:
    """By policy, how many times the CPU of the first policy a send takes, and the whole session."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in policies}
    for turn in range(rounds + 1):
        for name, policy in policies.items():
            measured = await _measured(policy)
            if turn:  # the first round warms up
                found[name].append(measured)
    base = found[next(iter(policies))]
    sends, whole = (
        {
            name: statistics.median(each[at] / first[at] for each, first in zip(rows, base, strict=True))
            for name, rows in found.items()
        }
        for at in (0, 1)
    )
    return sends, whole
