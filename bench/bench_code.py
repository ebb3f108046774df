"""What calling tools from code saves: fifty reads, called one by one, many in a reply, or from one piece of code.

    python bench/bench_code.py [--reads 50] [--tools 50]

- turns, tokens and time of one question that takes fifty reads of 700 characters each, with a scripted model
- tokens that tell a model of fifty tools: as JSON schemas, and as the signatures that code is written by

The requests are those of OpenAI's Chat codec, counted with the tokenizer of Llama 2. The model answers at once, so the
time is ours alone: with a service, each turn costs a round trip more. A table goes to stderr, JSON to stdout; the exit
code is 1 if code needs more than two turns, or more tokens than another way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import wordllama
from tokenizers import Tokenizer

from handrail import Executor, Limits, Session, Tool
from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.run.code.code_mode import CodeMode

IN_A_REPLY = 25
TOKENIZER = Tokenizer.from_file(
    str(Path(wordllama.__file__).parent / "tokenizers" / "l2_supercat_tokenizer_config.json")
)
CODEC = OpenAIChatCodec()


def tokens(text: str) -> int:
    return len(TOKENIZER.encode(text, add_special_tokens=False).ids)


def read_order(number: int) -> dict[str, Any]:
    """Read an order: its customer, its lines and what it cost.

    Args:
        number: The number of the order, from 1 on.
    """
    lines = [{"article": f"article {number * 7 + at}", "pieces": at + 1, "cents": 100 + at} for at in range(12)]
    return {"number": number, "customer": f"customer {number % 9}", "lines": lines, "cents": number * 100}


class Scripted:
    """A model that makes the calls of each reply in order, then answers; it counts what it is sent and writes."""

    name = "gpt-4o"

    def __init__(self, *replies: list[tuple[str, dict[str, Any]]]) -> None:
        self._replies = list(replies)
        self.turns = self.sent = self.written = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.turns += 1
        body = CODEC.encode(request, self.name, stream=False).body
        self.sent += tokens(json.dumps([body["messages"], body.get("tools", [])], separators=(",", ":")))
        calls = self._replies.pop(0) if self._replies else []
        for at, (name, arguments) in enumerate(calls):
            self.written += tokens(name + json.dumps(arguments))
            yield CallRequested(call=ToolCall(f"call_{self.turns}_{at}", name, arguments))
        if not calls:
            self.written += tokens("Together they cost 1275.00.")
            yield TextDelta(text="Together they cost 1275.00.")
        yield ReplyFinished(stop="tool_calls" if calls else "end", model=self.name)


async def measured(model: Scripted, *, code: bool) -> dict[str, Any]:
    started = time.perf_counter()
    limits = Limits(iterations=1_000, calls_per_turn=1_000)
    tool = Tool.from_function(read_order, side_effects=False)
    async with Session(model, tools=[tool], code=code, limits=limits) as session:
        reply = await session.ask_async("What did the first orders cost together?")
    assert reply.text and not any(result.is_error for result in reply.results), reply.results
    seconds = time.perf_counter() - started
    return {"turns": model.turns, "input": model.sent, "output": model.written, "seconds": round(seconds, 3)}


def ways(reads: int) -> dict[str, tuple[Scripted, bool]]:
    numbers = range(1, reads + 1)
    calls = [("read_order", {"number": number}) for number in numbers]
    batches = [calls[at : at + IN_A_REPLY] for at in range(0, reads, IN_A_REPLY)]
    program = f"print(sum(read_order(number)['cents'] for number in range(1, {reads + 1})))"
    return {
        "one call in a reply": (Scripted(*([each] for each in calls)), False),
        f"{IN_A_REPLY} calls in a reply": (Scripted(*batches), False),
        "from code": (Scripted([("run_code", {"code": program})]), True),
    }


async def told(count: int) -> dict[str, int]:
    """Tokens by which a model is told of so many tools."""

    def made(at: int) -> Tool:
        async def search(text: str, folder: str = "inbox", newest_first: bool = True, most: int = 20) -> list[str]:
            """Search the messages of an account.

            Args:
                text: Words that the messages must have.
                folder: Where to look.
                newest_first: Whether the newest come first.
                most: How many to return.
            """
            raise NotImplementedError

        return Tool.from_function(search, name=f"search_{at}", side_effects=False)

    tools = [made(at) for at in range(count)]
    offers = tuple(ToolOffer(each.name, each.definition.description, each.definition.input_schema) for each in tools)
    body = CODEC.encode(ModelRequest(messages=(), tools=offers), "gpt-4o", stream=False).body
    async with Executor(tools) as executor, CodeMode(executor) as code:
        return {
            "schemas": tokens(json.dumps(body["tools"], separators=(",", ":"))),
            "signatures": tokens(code.instructions),
        }


async def main(reads: int = 50, tools: int = 50) -> bool:
    """Whether an aim is missed."""
    found = {name: await measured(model, code=code) for name, (model, code) in ways(reads).items()}
    described = await told(tools)
    print(f"{reads} reads".ljust(24), *(each.rjust(10) for each in ("turns", "input", "output", "ms")), file=sys.stderr)
    for name, row in found.items():
        cells = (row["turns"], row["input"], row["output"], round(row["seconds"] * 1000))
        print(name.ljust(24), *(f"{each:,}".rjust(10) for each in cells), file=sys.stderr)
    words = " and ".join(f"{count:,} tokens as {name}" for name, count in described.items())
    print(f"{tools} tools are told in {words}", file=sys.stderr)
    print(json.dumps({"reads": found, "tools": described}))
    best = found["from code"]
    return best["turns"] > 2 or any(best["input"] > row["input"] for row in found.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=50)
    parser.add_argument("--tools", type=int, default=50)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.reads, chosen.tools)))
