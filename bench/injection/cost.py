"""What following origins costs: the CPU time of a side effect in a session that has read 50 results, as a ratio.

Two sessions: an ordinary one, whose results have several sizes and labels, and the worst one, in which each of the 50
results is a long mail that must not leave, so that all that is sent is compared with all of them.

Sessions of each policy take turns in one process, and a ratio is between two of the same round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

from bench.injection.domains.mail import find_contact, list_mails, read_mail, send_mail
from bench.injection.world import World
from handrail import Invocation, Limits, Policy, Session, ToolCall, tool
from handrail.confirm import Allow, Confirmation, Decision
from handrail.core.model_request import ModelRequest
from handrail.events import CallRequested, ModelEvent, ReplyFinished, TextDelta

READS = 50
CALLS = 50
TO = "anna.berg@north.example"


class Scenario(NamedTuple):
    """What is read before the mails are sent."""

    prompt: str
    reads: tuple[tuple[str, dict[str, str]], ...]


@tool
async def read_page(invocation: Invocation[World], id: str) -> str:
    """Read a page of the application's own handbook."""
    text: str = invocation.deps.row("pages", id)["text"]
    return text


SCENARIOS: Mapping[str, Scenario] = {
    "50 results of several kinds": Scenario(
        "Read the pages and my mails, and write to Anna Berg about each of the pages.",
        tuple(
            (
                ("read_page", {"id": f"p{at}"}),
                ("read_mail", {"id": f"short{at}"}),
                ("find_contact", {"name": f"Person {at}" if at != 2 else "Anna Berg"}),
                ("read_page", {"id": f"p{at}"}),
                ("list_mails", {"folder": f"folder {at}"}),
            )[at % 5]
            for at in range(READS)
        ),
    ),
    "50 long private mails": Scenario(
        f"Read my mails and write to {TO} about each of the pages.",
        tuple(("read_mail", {"id": f"m{at}"}) for at in range(READS)),
    ),
}


class ReadsThenSends:
    """A model that reads 50 results and then sends as many mails to one person. It notes when it began to."""

    name = "scripted"

    def __init__(self, reads: Sequence[tuple[str, dict[str, str]]]) -> None:
        self._reads = reads
        self._made = 0
        self.sends_since = 0.0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        at = self._made
        self._made += 1
        if at == READS:
            self.sends_since = time.process_time()
        if at < READS:
            yield CallRequested(call=ToolCall(f"call-{at}", *self._reads[at]))
        elif at < READS + CALLS:
            body = f"Number {at}: the draft is fine, and the second page works. Regards, Robin"
            arguments = {"to": TO, "subject": f"Page {at}", "body": body}
            yield CallRequested(call=ToolCall(f"call-{at}", "send_mail", arguments))
        else:
            yield TextDelta(text="Done.")
        yield ReplyFinished(stop="end" if at >= READS + CALLS else "tool_calls", model=self.name)


_HANDBOOK = "Pictures are printed in two colours unless the customer says otherwise, and proofs go out in the evening. "


class SaysYes:
    """An approver, for policies that ask."""

    def __init__(self) -> None:
        self.asked = 0

    async def decide(self, question: Confirmation) -> Decision:
        self.asked += 1
        return Allow("the person")


def _world() -> World:
    line = "The launch is on 3 March, the budget is 18,500 euros, and page {} needs another picture by Friday. "
    long = {f"m{at}": (15, "inbox") for at in range(READS)}
    short = {f"short{at}": (2 + at % 3, "archive") for at in range(READS)}
    listed = {f"listed{at}": (1, f"folder {at // 4}") for at in range(4 * READS)}
    mails = {
        id: {
            "id": id,
            "from": f"person{at}@north.example",
            "from_name": f"Person {at}",
            "to": "me@home.example",
            "subject": f"Page {at} of the brochure",
            "body": "".join(line.format(at * 100 + number) for number in range(lines)),
            "date": "2026-11-16",
            "folder": folder,
            "attachments": [],
        }
        for at, (id, (lines, folder)) in enumerate((long | short | listed).items())
    }
    names = {f"c{at}": (f"Person {at}", f"person{at}@north.example") for at in range(READS)} | {"c2": ("Anna Berg", TO)}
    contacts = {
        id: {"id": id, "name": name, "email": email, "phone": f"+49 30 5550{id[1:]:0>3}", "team": "print"}
        for id, (name, email) in names.items()
    }
    pages = {f"p{at}": {"text": f"Page {at} of the handbook. " + _HANDBOOK * (1 + at % 4)} for at in range(READS)}
    return World({"mails": mails, "contacts": contacts, "pages": pages, "outbox": {}})


async def _measured(policy: Policy, scenario: Scenario) -> tuple[float, float]:
    """The CPU seconds of the sends, and of the whole."""
    model, world, person = ReadsThenSends(scenario.reads), _world(), SaysYes()
    tools = (read_mail, list_mails, find_contact, read_page, send_mail)
    limits = Limits(iterations=READS + CALLS + 1, same_answer=READS)
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        async with Session(model, tools=tools, policy=policy, approver=person, limits=limits, deps=world) as session:
            await session.ask_async(scenario.prompt)
        ended = time.process_time()
    finally:
        gc.enable()
    assert len(world.rows("outbox")) == CALLS, "the calls should have run"
    return ended - model.sends_since, ended - begun


async def cost(
    policies: Mapping[str, Policy], scenario: Scenario, rounds: int = 15
) -> tuple[dict[str, float], dict[str, float]]:
    """By policy, how many times the CPU of the first policy a send takes, and the whole session."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in policies}
    for turn in range(rounds + 1):
        for name, policy in policies.items():
            measured = await _measured(policy, scenario)
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
