"""The work that every contestant does: jobs, tools, prompts, and what the mock service answers.

Only the standard library: peers import it in environments of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MODEL = "mock-model"
SYSTEM = "You are a careful assistant. Use the tools."
PROMPT = "Note down what I told you, then say that it is done."
ANSWER = "It is done: everything is noted."
PIECE = 20
"""Bytes of arguments in one delta of a stream."""

AsyncTool = Callable[..., Awaitable[str]]
Once = Callable[[], Awaitable[str]]
"""Does a job once, and returns the final answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a loop: so many turns with so many calls each, then the answer."""

    name: str
    turns: int = 1
    calls: int = 1
    tools: int = 1
    history: int = 0
    """Messages that were said before: by fours, a question, a call, its result, an answer."""
    argument: int = 24
    """Characters of text in the arguments of a call."""
    stream: bool = False
    pace: float = 0.0
    """Seconds between two deltas, so that the time from the last of them to the tool can be taken."""


JOBS: Mapping[str, Job] = {
    job.name: job
    for job in (
        Job(name="one_tool"),
        Job(name="one_tool_streamed", stream=True),
        Job(name="par4", calls=4),
        Job(name="seq10", turns=10),
        Job(name="tools200", tools=200),
        Job(name="hist200", history=200),
        Job(name="stream10k", argument=10_000, stream=True),
        Job(name="stream100k", argument=100_000, stream=True),
        Job(name="paced", calls=2, argument=100, stream=True, pace=0.002),
        Job(name="turns100", turns=100),
        Job(name="turns1000", turns=1000),
    )
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool, and its schema for those who must write it by hand."""

    function: AsyncTool
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return (self.function.__doc__ or "").strip()

    def as_openai(self) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


@dataclass(slots=True)
class Work:
    """A job as one contestant holds it, with the marks that its tool leaves."""

    job: Job
    starts: list[tuple[int, int]] = field(default_factory=list)
    """The number that the tool was given, and when it began, in nanoseconds of CLOCK_MONOTONIC."""
    spent: list[int] = field(default_factory=list)
    """CPU of the process when the tool began, in nanoseconds, if the job has many turns."""

    def tools(self) -> list[Declared]:
        return [self._note(), *(_other(n) for n in range(1, self.job.tools))]

    def history(self) -> list[dict[str, Any]]:
        """What was said before, in OpenAI's words, without the system prompt."""
        return [message for n in range(self.job.history // 4) for message in _exchange(n)]

    def _note(self) -> Declared:
        starts, spent, many = self.starts, self.spent, self.job.turns >= 100

        async def note(text: str, number: int) -> str:
            """Note down a text under a number, and say that it was noted."""
            starts.append((number, time.monotonic_ns()))
            if many:
                spent.append(time.process_time_ns())
            return f"noted {len(text)} characters under {number}"

        return Declared(note, _object({"text": {"type": "string"}, "number": {"type": "integer"}}, ["text", "number"]))


def _other(n: int) -> Declared:
    async def other(query: str, limit: int = 10, exact: bool = False) -> str:
        raise NotImplementedError

    other.__name__ = other.__qualname__ = f"search_place_{n:03}"
    other.__doc__ = f"Search place number {n} for records that fit a query; the newest come first, with their dates."
    properties = {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "exact": {"type": "boolean", "default": False},
    }
    return Declared(other, _object(properties, ["query"]))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _exchange(n: int) -> list[dict[str, Any]]:
    call = tool_call(f"call_before_{n}", arguments(24, n))
    return [
        {"role": "user", "content": f"Please note down matter {n}, which I told you of."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": f"noted 24 characters under {n}"},
        {"role": "assistant", "content": f"Matter {n} is noted, as you asked me to."},
    ]


def arguments(size: int, number: int) -> str:
    """Arguments as a model writes them, with a text of so many characters in them."""
    line = "a line of the text, with its end.\n"
    return json.dumps({"text": (line * (size // len(line) + 1))[:size], "number": number})


def tool_call(call_id: str, text: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "note", "arguments": text}}


def calls_of(job: Job, turn: int) -> list[dict[str, Any]]:
    """The calls of one reply. Their ids and arguments differ, so that nobody can answer one from another."""
    numbers = range(turn * job.calls, (turn + 1) * job.calls)
    return [tool_call(f"call_{n}", arguments(job.argument, n)) for n in numbers]
