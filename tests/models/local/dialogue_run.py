"""Holds the dialogues with the real model, through `Session`: `python -m tests.models.local.dialogue_run`.

It prints every turn that went wrong (`--all`: every turn) and the score by kind; the table is in docs/local-model.md.
With the word `free` the model's sentences are left as they are.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

from handrail import Session, create_llm
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny
from handrail.core.jsontext import parse_object
from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.sessions.llm import LLM
from tests.models.local.dialogue_judge import Verdict, judge
from tests.models.local.dialogues import DIALOGUES, Dialogue, Turn


class Person:
    """Denies what the turn says is denied, and allows the rest."""

    turn: Turn | None = None

    async def decide(self, question: Confirmation) -> Decision:
        if self.turn is not None and self.turn.denied:
            return Deny("the person", "I changed my mind")
        return Allow("the person")


async def hold(llm: LLM, dialogue: Dialogue) -> list[Verdict]:
    """Every turn of one dialogue, judged."""
    person, verdicts = Person(), []
    session = Session(provider=llm, tools=dialogue.tools, approver=person)
    try:
        heard = " ".join(f"{tool.definition.name} {tool.definition.description}" for tool in dialogue.tools)
        results: list[ToolResult] = []
        for turn in dialogue.turns:
            person.turn = turn
            heard += f" {turn.said}"
            before = len(session.conversation)
            answer = await session.ask_async(turn.said)
            new = session.conversation.messages[before:]
            results += [message.result for message in new if isinstance(message, ResultMessage)]
            verdicts.append(judge(turn, _calls(new), results, heard, answer.text))
    finally:
        await session.aclose()
    return verdicts


def _calls(messages: Sequence[Message]) -> list[tuple[str, dict[str, object]]]:
    calls = [message.call for message in messages if isinstance(message, InvocationMessage)]
    return [
        (call.name, call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments))
        for call in calls
    ]


def report(verdicts: Sequence[Verdict]) -> str:
    asked = Counter(verdict.turn.kind for verdict in verdicts)
    right = Counter(verdict.turn.kind for verdict in verdicts if verdict.right)
    calls = Counter(verdict.turn.kind for verdict in verdicts if verdict.calls_right)
    lines = [f"{kind:16} {right[kind]:3} of {count:3} right, calls {calls[kind]:3}" for kind, count in asked.items()]
    invented = sum(bool(verdict.invented) for verdict in verdicts)
    total = (
        f"{right.total()} of {asked.total()} turns right, {calls.total()} with the right calls, "
        f"{invented} with something invented"
    )
    return "\n".join([*lines, total])


def line(verdict: Verdict) -> str:
    marks = [f"invented {verdict.invented}"] if verdict.invented else []
    marks += [] if verdict.calls_right else [f"calls {verdict.calls}"]
    marks += [] if verdict.answer_right else ["lacks something"]
    mark = "right" if verdict.right else "WRONG"
    return f"{mark} {verdict.turn.kind}: {verdict.turn.said!r} -> {verdict.answer!r} {'; '.join(marks)}"


async def main(answers: str, show_all: bool) -> None:
    llm = create_llm("local", answers=answers)
    verdicts: list[Verdict] = []
    for dialogue in DIALOGUES:
        for verdict in await hold(llm, dialogue):
            verdicts.append(verdict)
            if show_all or not verdict.right:
                sys.stdout.write(f"{line(verdict)}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{report(verdicts)}\n")
    await llm.aclose()


if __name__ == "__main__":
    asyncio.run(main("free" if "free" in sys.argv else "bound", "--all" in sys.argv))
