"""Runs one RLM again and again, each time with its process or its sandbox killed by SIGKILL somewhere.

`python -m tests.crash.killed_rlm FOLDER SEED COUNT` forks a process for each life, lets others take up what it left
until there is an answer, and prints what came of each point as a line of JSON. The first line is the run that nobody
killed. A place to die is before and after each write to the journal and each effect, before each question to a model,
and wherever a cell begins or ends. At a third of the points the sandbox dies and its host lives; at some, the process
that takes the run up is killed too.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from handrail import Invocation, Policy, Tool, tool
from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, Recorded, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, ResultMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.rlm import RLM
from handrail.rlm.progress import CellRan, CellRunning, ReplRebuilt
from handrail.rlm.values import LMRequest, LMResponse
from handrail.sandbox.jail import unavailable
from tests.crash.killed_calls import DyingJournal, dump, forked, lines, note
from tests.processes import children

RUN = "run-of-an-rlm"
CONTEXT = "a field\n" * 40
QUESTION = "What was found?"
KINDS = ("monty", "process", "monty", "process" if unavailable() else "os", *["monty"] * 7)
"""The others take three times as long."""
LIVES = 6
PRELOADED = (
    "concurrent.futures.thread",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "handrail.sandbox.kernel",
    "handrail.sandbox.monty.repl",
    "opentelemetry.context",
)
"""What every life would load for itself."""
_SUBREAPER = 36
_PATIENCE = 10.0

Plan = dict[str, Any]

TRIED = """
def tried(act, n):
    try:
        return act(n)
    except Exception as error:
        return "? " + str(error)
"""
NOTE = [{"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}]
TURNS = (
    f"```repl\n{TRIED}\nfound = [tried(pay, 1), llm_query('a')]\n```",
    "```repl\nfound.append(llm_query_batched(['b', 'c', 'd']))\n```\n"
    "```repl\nfound = found + [tried(put, 2), tried(settle, 3)]\nprint(len(found), len(context))\n```",
    "```repl\nfound.append(rlm_query('the child'))\n```",
    "```repl\ndef handler(name, arguments):\n    return tried(pay, 5)\n"
    f"found.append(llm_query('use it', tools={NOTE!r}, tool_handler=handler))\n```",
    '```repl\nanswer["content"] = found\nanswer["ready"] = True\n```',
)
CHILD = (
    f"```repl\n{TRIED}\nmine = [tried(pay, 4), llm_query('e')]\n```",
    "```repl\nFINAL(' and '.join(mine))\n```",
)
ANSWER = ["pay 1", "A", ["B", "C", "D"], "put 2", "settle 3", "pay 4 and E", "pay 5"]


class RlmDeath:
    """Kills the process, or all that it has started, at the n-th step."""

    def __init__(self, at: int | None = None, victim: str = "host") -> None:
        self._at = at
        self._victim = victim
        self.steps = 0
        self.killed = 0

    def step(self) -> None:
        if self.steps == self._at:
            if self._victim == "host":
                os.kill(os.getpid(), signal.SIGKILL)
            for child in children():
                os.kill(child, signal.SIGKILL)
                self.killed += 1
        self.steps += 1


class PatientJournal(DyingJournal):
    """Writes every entry by a wait, so that the steps of a life do not depend on how quick the disk is."""

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        return False

    def append_soon(self, event: Recorded) -> bool:
        return False


class ScriptedRootModel:
    """Writes the next turn of its script. Which one it is, it reads from what was said: so it survives its process."""

    name = "root"

    def __init__(self, folder: Path, death: RlmDeath) -> None:
        self._folder = folder
        self._death = death

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        first = next(message for message in request.messages if isinstance(message, UserMessage))
        script = CHILD if "the child" in first.text else TURNS
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        note(self._folder / "asked", "child" if script is CHILD else "root", turn)
        self._death.step()
        yield TextDelta(text=script[turn])
        yield ReplyFinished(stop="end", model=self.name)


class ScriptedSubModel:
    """Says its question in capitals; where it has a tool, it calls that first, and says what came of it."""

    name = "sub"

    def __init__(self, folder: Path, death: RlmDeath) -> None:
        self._folder = folder
        self._death = death

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        last = request.messages[-1]
        self._death.step()
        if request.tools and not isinstance(last, ResultMessage):
            yield CallRequested(call=ToolCall("", "note", {}))
            yield ReplyFinished(stop="tool_calls", model=self.name)
            return
        said = last.result.text if isinstance(last, ResultMessage) else getattr(last, "text", "").upper()
        note(self._folder / "asked", "sub", said)
        yield TextDelta(text=said)
        yield ReplyFinished(stop="end", model=self.name)


def tools(folder: Path, death: RlmDeath) -> dict[str, Tool]:
    """An effect, one that may be repeated under its key, and one that can be looked up."""
    effects = folder / "effects"

    async def act(kind: str, n: int, invocation: Invocation) -> str:
        death.step()
        note(effects, kind, n, invocation.idempotency_key)
        death.step()
        return f"{kind} {n}"

    async def look_up(invocation: Invocation) -> str | None:
        n = invocation.arguments["n"]
        return f"settle {n}" if ["settle", str(n)] in [words[:2] for words in lines(effects)] else None

    @tool(side_effects=True)
    async def pay(n: int, invocation: Invocation) -> str:
        return await act("pay", n, invocation)

    @tool(side_effects=True, idempotent=True)
    async def put(n: int, invocation: Invocation) -> str:
        return await act("put", n, invocation)

    @tool(side_effects=True, reconcile=look_up)
    async def settle(n: int, invocation: Invocation) -> str:
        return await act("settle", n, invocation)

    return {"pay": pay, "put": put, "settle": settle}


async def live(folder: Path, kind: str, death: RlmDeath, told: Path) -> None:
    """One life: begin the run or take it up, and write down what came of it."""
    rebuilt: list[int] = []

    def watch(event: object) -> None:
        match event:
            case CellRunning() | CellRan():
                death.step()
            case ReplRebuilt(calls=calls):
                rebuilt.append(calls)

    def answered(request: LMRequest, response: LMResponse) -> None:
        note(folder / "answered", request.prompt)

    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        RLM(
            ScriptedRootModel(folder, death),
            environment=kind,
            other_backends=[ScriptedSubModel(folder, death)],
            custom_tools=tools(folder, death),
            journal=PatientJournal(journal, death),  # type: ignore[arg-type]
            policy=Policy(confirm_side_effects=False),
            max_depth=2,
            state=folder / "state",
            on_event=watch,
            on_request=answered,
        ) as rlm,
    ):
        found = await rlm.aresume(RUN, CONTEXT, QUESTION)
    said = {"response": found.response, "partial": found.partial, "error": found.error}
    dump(told, {**said, "rebuilt": rebuilt, "steps": death.steps, "killed": death.killed})


def one(folder: Path, kind: str, plan: Plan) -> dict[str, Any]:
    """Lives, until one comes to an end of its own."""
    folder.mkdir()
    lives: list[dict[str, Any]] = []
    for at in range(LIVES):
        deaths = plan["deaths"]
        death = RlmDeath(*deaths[at]) if at < len(deaths) else RlmDeath()
        before = {name: lines(folder / name) for name in ("asked", "answered")}
        told = folder / f"life-{at}"
        status = forked(lambda death=death, told=told: asyncio.run(live(folder, kind, death, told)))
        life = json.loads(told.read_text()) if told.exists() else {}
        asked = lines(folder / "asked")[len(before["asked"]) :]
        known = {words[0].upper() for words in before["answered"]}
        again = [words for words in asked if words[0] == "sub" and words[1] in known]
        lives.append(
            {**life, "died": os.WIFSIGNALED(status), "status": status, "asked again": again, "left": sorted(left())}
        )
        if not os.WIFSIGNALED(status):
            break
    return {
        "plan": plan,
        "kind": kind,
        "lives": lives,
        "effects": lines(folder / "effects"),
        "dumps": [str(path) for path in (folder / "state").rglob("*.dump")],
        "problems": audit(folder / "journal.db").problems,
    }


def left() -> set[int]:
    """Processes of a life that outlive it. They become children of this one, and are given a moment to end."""
    until = time.monotonic() + _PATIENCE
    while (found := children()) and time.monotonic() < until:
        for pid in found:
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
    return found


def plans(steps: int, seed: int, count: int) -> Iterator[tuple[str, Plan]]:
    """Points spread over the whole run; every third is a death of the sandbox, every fifth has a second death."""
    chance = random.Random(seed)
    for n in range(count):
        kind = KINDS[n % len(KINDS)]
        at = min(steps - 1, int((n + chance.random()) * steps / count))
        victim = "sandbox" if n % 3 == 2 else "host"
        deaths: list[tuple[int, str]] = [(at, victim)]
        if n % 5 == 4 and victim == "host":
            deaths.append((chance.randrange(steps - at), chance.choice(("host", "sandbox"))))
        yield kind, {"deaths": deaths}


def main(root: Path, seed: int, count: int) -> None:
    for module in PRELOADED:
        __import__(module)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    whole = one(root / "whole", KINDS[0], {"deaths": []})
    tell(whole)
    for n, (kind, plan) in enumerate(plans(whole["lives"][0]["steps"], seed, count)):
        tell(one(root / str(n), kind, plan))


def tell(life: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(life) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
