"""The scenes that are played over every wire.

The forty cases of `handrail probe`, with a model that does the right thing; and
cases of our own that are hard to carry: names, arguments, choices, and real mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handrail.cli.probe.cases import ProbeCase, load_suite
from handrail.core.events import ModelEvent
from handrail.core.messages import Conversation
from handrail.core.model_request import NamedTool, ToolChoice
from handrail.testing.model import call, text
from handrail.tools.registry import RegisteredTools, registered
from tests.wires.sample_tools import LONG, TOOLS

SUITE = load_suite()
ANSWER = "There you are."


@dataclass(frozen=True, slots=True, kw_only=True)
class WireScene:
    id: str
    conversation: Conversation
    tools: RegisteredTools
    replies: tuple[list[ModelEvent], ...]
    outcomes: tuple[str, ...]
    """Of all calls, in order."""
    choice: ToolChoice = "auto"
    not_over: frozenset[str] = frozenset()
    """Wires that cannot carry it."""


CHOSEN: dict[str, dict[str, Any]] = {
    "choose-weather": {"city": "Bergen"},
    "choose-time": {"city": "Tokyo"},
    "choose-timer": {"minutes": 10},
    "choose-translate": {"text": "thank you", "language": "Portuguese"},
    "choose-currency": {"amount": 50, "from": "EUR", "to": "USD"},
    "choose-message": {"to": "Ada", "text": "I will be late."},
    "choose-notes": {"query": "wifi password"},
    "choose-list": {"list": "shopping", "item": "milk"},
}
"""What is right where the case judges only the choice."""


def right_reply(case: ProbeCase) -> list[ModelEvent]:
    """What a model says that gets everything right."""
    return [_asked(right.tool, _values(case, right.arguments)) for right in case.calls] or [text(ANSWER)]


def _values(case: ProbeCase, arguments: dict[str, list[Any]] | None) -> dict[str, Any]:
    return CHOSEN[case.id] if arguments is None else {name: values[0] for name, values in arguments.items()}


def _asked(tool: str, arguments: dict[str, Any]) -> ModelEvent:
    return call(tool, **arguments)


def _probed(case: ProbeCase, tools: RegisteredTools) -> WireScene:
    first = right_reply(case)
    return WireScene(
        id=case.id,
        conversation=case.conversation,
        tools=tools,
        replies=(first, [text(ANSWER)]) if case.calls else (first,),
        outcomes=("ok",) * len(case.calls),
    )


def _own(
    id: str, *replies: list[ModelEvent], outcomes: str = "ok", choice: ToolChoice = "auto", system: str = ""
) -> WireScene:
    said = Conversation().supervised(system) if system else Conversation()
    return WireScene(
        id=id,
        conversation=said.say(f"Please play {id}."),
        tools=OWN_TOOLS,
        replies=replies,
        outcomes=tuple(outcomes.split()),
        choice=choice,
    )


def _echoes(id: str, words: str) -> WireScene:
    return _own(id, [call("echo", text=words)], [text(ANSWER)])


OWN_TOOLS = registered(*TOOLS)
GUESTS = [{"name": "Zoë", "age": 41, "likes": ["tea", "ö"]}, {"name": "Al", "age": None}]
DONE = [text(ANSWER)]

OWN = (
    _own("no-arguments", [call("now")], DONE),
    _own("dotted-name", [call("notes.write", title="t", tags=[])], DONE),
    _own("long-name", [call(LONG, query="x", most=None)], DONE),
    _own("optional-given", [call(LONG, query="x", order="old", most=3)], DONE),
    _own("left-to-null", [call("remind", what="tea")], DONE),
    _own("null-inside", [call("remind", what="tea", place={"city": "Rome"})], DONE),
    _own("nested", [call("book", guests=GUESTS, price=99.5, breakfast=True)], DONE),
    _own(
        "numbers", [call("add", a=-(2**53) + 1, b=2**53 - 1)], [call("divide", a=1e-7, b=0.25)], DONE, outcomes="ok ok"
    ),
    _echoes("other-scripts", "Grüße, 世界, 👩‍👩‍👧 and שלום"),
    _echoes("quotes", 'He said "no", it\'s \\ a \\n backslash'),
    _echoes("lines", "one\n\n  two\tthree\n"),
    _echoes("markup", 'if a < b && c > d: {"x": [1]} </b>'),
    _echoes("fence", "```code```"),
    _echoes("like-a-number", "007"),
    _echoes("empty", ""),
    _echoes("long", "0123456789 " * 400),
    _own("spoken-before", [text("Let me see."), call("add", a=1, b=2)], [text("It is 3.")], system="Be brief."),
    _own("text-like-json", [text('In JSON, that is {"a": [1, 2]} and a < b.')], outcomes=""),
    _own("chain", [call("add", a=1, b=2)], [call("add", a=3, b=3)], [call("add", a=6, b=4)], DONE, outcomes="ok ok ok"),
    _own(
        "mixed",
        [call("add", a=1, b=2), call("notes.write", title="a", tags=["b", "c"], pinned=True), call("now")],
        [call("notes.read", title="plan"), call("echo", text="x")],
        DONE,
        outcomes="ok ok ok ok ok",
    ),
    _own("required", [call("now")], DONE, choice="required"),
    _own("named", [call("notes.read", title="plan")], DONE, choice=NamedTool("notes.read")),
    _own("forbidden", DONE, choice="none", outcomes=""),
    _own("wrong-type", [call("add", a="one", b=2)], [call("add", a=1, b=2)], DONE, outcomes="invalid_arguments ok"),
    _own("left-out", [call("add", a=1)], [call("add", a=1, b=2)], DONE, outcomes="invalid_arguments ok"),
    _own("no-such-tool", [call("subtract", a=1, b=2)], [call("now")], DONE, outcomes="unknown_tool ok"),
    _own(
        "its-own-error", [call("notes.read", title="q")], [call("notes.read", title="plan")], DONE, outcomes="failed ok"
    ),
    _own("a-crash", [call("divide", a=1, b=0)], DONE, outcomes="failed"),
    _own("one-of-two", [call("divide", a=1, b=0), call("divide", a=1, b=2)], DONE, outcomes="failed ok"),
)
PROBED_TOOLS = SUITE.registered()
PROBED = tuple(_probed(case, PROBED_TOOLS) for case in SUITE.case)
SCENES = (*PROBED, *OWN)
