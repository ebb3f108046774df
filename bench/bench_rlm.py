"""What the queries and the REPL of an RLM add to the runner and the sandbox that they use.

    python bench/bench_rlm.py [--rounds 9] [--queries 1000] [--turns 60] [--megabytes 10]

- a batch of sub-queries beside as many runs of the bare runner, as many at once: at most 1.3
- one query without tools beside one run of the bare runner: nothing measurable, at most 1.1
- a turn of the REPL (reply, call, cell) beside the bare sandbox: at most 1 ms more; for Monty, beside Monty itself
- a needle in ten million characters, with a scripted root: how much this process grows

The model is a script that answers at once. Rounds are interleaved; the figures are medians. A table goes to stderr,
JSON to stdout; the exit code is 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from handrail import RLM, Context, Conversation, Executor, Runner
from handrail.core.errors import MissingExtra, SandboxUnavailable
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage
from handrail.core.model_request import ModelRequest
from handrail.rlm.query.queries import Queries
from handrail.sandbox.port import create_sandbox

BATCH, ONE, TURN, GROWTH = 1.3, 1.1, 1.0, 64.0
"""The aims: two ratios, milliseconds, megabytes."""
AT_ONCE = 16
CODE = "x = 1 + 1\nprint(x)"
NEEDLE = "The secret word is kestrel."

Way = Callable[[], Awaitable[None]]


class Echo:
    """A model that answers at once."""

    name = "echo"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="yes")
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(input_tokens=3, output_tokens=1))


class Writes:
    """A root model that has these replies in order, and then says that it is done."""

    name = "writes"

    def __init__(self, *replies: str) -> None:
        self._replies = replies

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        at = sum(isinstance(message, AssistantMessage) for message in request.messages)
        yield TextDelta(text=self._replies[min(at, len(self._replies) - 1)])
        yield ReplyFinished(stop="end", model=self.name)


def bare_batch(runner: Runner, prompts: list[str]) -> Way:
    runs = iter(range(10**9))

    async def way() -> None:
        waiting = iter(prompts)
        answers: list[str] = []

        async def worker() -> None:
            for prompt in waiting:
                run = f"run-{next(runs)}"
                answers.append((await runner.run(Conversation().say(prompt), Context(run=run))).text)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        assert answers == ["yes"] * len(prompts)

    return way


def our_batch(queries: Queries, prompts: list[str]) -> Way:
    async def way() -> None:
        answers = await queries.batched(prompts)
        assert [each.response for each in answers] == ["yes"] * len(prompts)

    return way


def bare_queries(runner: Runner, prompts: list[str]) -> Way:
    runs = iter(range(10**9))

    async def way() -> None:
        for prompt in prompts:
            assert (await runner.run(Conversation().say(prompt), Context(run=f"one-{next(runs)}"))).text == "yes"

    return way


def our_queries(queries: Queries, prompts: list[str]) -> Way:
    async def way() -> None:
        for prompt in prompts:
            assert (await queries.query(prompt)).response == "yes"

    return way


async def measured(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Seconds of each way, the median over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            await way()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


async def of_queries(rounds: int, number: int) -> dict[str, float]:
    prompts = [f"Is {at} a number?" for at in range(number)]
    async with Executor([]) as executor:
        runner, queries = Runner(Echo(), executor), Queries({}, Echo(), concurrency=AT_ONCE)
        ways = {
            "runner": bare_batch(runner, prompts),
            "batched": our_batch(queries, prompts),
            "one by one": bare_queries(runner, prompts),
            "query": our_queries(queries, prompts),
        }
        await measured(ways, 1)
        found = await measured(ways, rounds)
        await queries.aclose()
    return {name: each / number * 1e6 for name, each in found.items()}


async def of_monty(rounds: int, turns: int) -> float:
    """Milliseconds of a cell in Monty itself, without anything of ours."""
    from pydantic_monty import AsyncMonty, CollectString

    async with AsyncMonty() as pool, pool.checkout() as session:

        async def way() -> None:
            for _ in range(turns):
                printed = CollectString()
                await session.feed_run(CODE, print_callback=printed)
                assert printed.output == "2\n"

        await way()
        return (await measured({"monty": way}, rounds))["monty"] / turns * 1e3


async def of_turns(kind: str, rounds: int, turns: int) -> dict[str, float]:
    """Milliseconds of a turn."""
    async with create_sandbox(kind) as sandbox:
        repl = await sandbox.repl()
        await repl.run(CODE)

        async def bare() -> None:
            for _ in range(turns):
                assert (await repl.run(CODE)).stdout == "2\n"

        replies = [*[f"```repl\n{CODE}\n```"] * turns, '```repl\nanswer["content"], answer["ready"] = x, True\n```']

        async def whole(replies: list[str]) -> None:
            rlm = RLM(Writes(*replies), environment=sandbox, max_iterations=turns + 5)
            assert (await rlm.acompletion("a context", "a question")).response == "2"

        ways: dict[str, Way] = {
            "sandbox": bare,
            "turns": lambda: whole(replies),
            "no turns": lambda: whole(['```repl\nx = 2\nanswer["content"], answer["ready"] = x, True\n```']),
        }
        await measured(ways, 1)
        found = await measured(ways, rounds)
        await repl.aclose()
    return {
        "sandbox": found["sandbox"] / turns * 1e3,
        "turn": (found["turns"] - found["no turns"]) / turns * 1e3,
        "begin and end": found["no turns"] * 1e3,
    }


async def of_the_needle(megabytes: int) -> dict[str, float]:
    """Megabytes that this process grows by, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        hay = Path(folder) / "hay.txt"
        line = "All work and no play makes a long and dull text, and there is much of it.\n"
        lines = megabytes * 10**6 // len(line)
        with hay.open("w") as file:
            for at in range(lines):
                file.write(f"{NEEDLE}\n" if at == lines * 2 // 3 else line)
        root = Writes(
            '```repl\nfound = context.search("secret word")\nprint(found)\n```',
            '```repl\nat = found[0]["at"]\nreply = llm_query("What is the word? " + context.read(at - 200, 400))\n'
            'answer["content"] = context.read(at, 30) + reply\nanswer["ready"] = True\n```',
        )
        before, start = _peak(), time.perf_counter()
        async with RLM(root, other_backends=[Echo()]) as rlm:
            completion = await rlm.acompletion(hay, "What is the secret word?")
        assert "kestrel" in completion.response, completion
        return {"growth": _peak() - before, "seconds": time.perf_counter() - start}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shown(found: dict[str, dict[str, float]]) -> int:
    missed = 0

    def aim(what: str, is_met: bool) -> None:
        nonlocal missed
        missed += not is_met
        print(f"  {what}: {'met' if is_met else 'MISSED'}", file=sys.stderr)

    queries = found["queries"]
    for name, each in queries.items():
        print(f"{name:20}{each:9.1f} µs", file=sys.stderr)
    ratio, one = queries["batched"] / queries["runner"], queries["query"] / queries["one by one"]
    aim(f"a batch {ratio:.2f} × the bare runner, at most {BATCH:g}", ratio <= BATCH)
    aim(f"a query {one:.2f} × the bare runner, at most {ONE:g}", one <= ONE)
    for kind in ("monty", "os"):
        if kind not in found:
            print(f"{kind}: not on this machine", file=sys.stderr)
            continue
        turns = found[kind]
        for name, each in turns.items():
            print(f"{kind + ', ' + name:20}{each:9.2f} ms", file=sys.stderr)
        over = turns["turn"] - turns.get("monty itself", turns["sandbox"])
        aim(f"a turn {over:.2f} ms over the sandbox, at most {TURN:g}", over <= TURN)
    needle = found["needle"]
    print(f"{'needle':20}{needle['growth']:9.1f} MB{needle['seconds']:9.2f} s", file=sys.stderr)
    aim(f"this process grows by at most {GROWTH:g} MB", needle["growth"] <= GROWTH)
    return missed


async def main(rounds: int, queries: int, turns: int, megabytes: int) -> int:
    found = {"needle": await of_the_needle(megabytes)}
    found["queries"] = await of_queries(rounds, queries)
    for kind in ("monty", "os"):
        with contextlib.suppress(MissingExtra, SandboxUnavailable):
            found[kind] = await of_turns(kind, max(rounds // 2, 3), turns)
    if "monty" in found:
        found["monty"] = {"monty itself": await of_monty(rounds, turns), **found["monty"]}
    missed = shown(found)
    print(json.dumps(found))
    return int(missed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--megabytes", type=int, default=10, help="at least 5: less is given to the code whole")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.rounds, given.queries, given.turns, given.megabytes)))
