"""The scenes that every framework is put into, and the words for what came of each. A framework is a `Stage`.

    python docs/examples/comparison/with_pydantic_ai.py

prints a line for each scene. The words are made from what was observed: which functions ran, and what the
model was sent next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from service import Service, model

SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
    "additionalProperties": False,
}
LIMIT = 0.2
"""Seconds that a plain function may take, where a framework lets one say so."""
LONG = 300_000
Function = Callable[..., Any]


class Refused(Exception):
    """The framework does not take this."""


@dataclass(frozen=True)
class Order:
    """An order."""

    number: int


class Stage(Protocol):
    """A framework, with one agent that has one or more tools."""

    async def run(self, url: str, *functions: Function, turns: int = 10) -> None:
        """Ask the model at this address once, with these functions as tools."""

    async def run_schema(self, url: str, function: Callable[[int], str]) -> None:
        """The same with a tool `buy` that is given as JSON Schema."""

    async def run_limited(self, url: str, function: Function, seconds: float) -> None:
        """The same with a time limit for the function. Raises `Refused` if there is none."""

    async def run_cancelled(self, url: str, *functions: Function, ready: asyncio.Event) -> None:
        """Begin, cancel when it is ready, and ask once more in the same conversation."""

    async def run_lost(self, url: str, function: Function, begun: asyncio.Event) -> None:
        """Begin, and while the function runs go on elsewhere with what a lost process would have left behind."""

    async def run_asking(self, url: str, function: Function, asked: Callable[[], None]) -> None:
        """The same as `run`, with a tool that waits for a person's word: say that it was asked for, and give it."""

    async def run_typed(self, url: str, type: type[Order]) -> Order:
        """Ask the model at this address for a value of a type, without tools."""
        ...


async def schema(stage: Stage) -> str:
    ran: list[int] = []

    def buy(count: int) -> str:
        ran.append(count)
        return "bought"

    with model([("buy", {"count": 0})]) as service:
        await _tolerant(stage.run_schema(service.url, buy))
        return "**runs it**" if ran else "refused; the model reads why" if "1" in service.results[0] else "refused"


async def timeout(stage: Stage) -> str:
    done = threading.Event()
    go_on = threading.Event()

    def slow() -> str:
        """Take long."""
        go_on.wait(20)
        done.set()
        return "sent"

    with model([("slow", {})]) as service:
        try:
            await stage.run_limited(service.url, slow, LIMIT)
        except Refused as why:
            return str(why)
        finally:
            go_on.set()
        told = service.results[0].lower() if len(service.asked) > 1 and service.results else ""
        await asyncio.to_thread(done.wait, 20)
    if "still" in told or "may yet" in told:
        return "told on time, and that it still runs"
    return "told on time, **not that it still runs**"


async def at_once(stage: Stage) -> str:
    running, most = 0, 0

    async def wait(n: int) -> str:
        """Wait."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        joined = 0
        while joined < running:  # until nobody else joins
            joined = running
            await asyncio.sleep(0.1)
        running -= 1
        return "ok"

    with model([("wait", {"n": n}) for n in range(50)]) as service:
        await stage.run(service.url, wait)
    return f"{most} at once" if most < 50 else "**all 50 at once**"


async def same_id(stage: Stage) -> str:
    ran: list[int] = []

    def look(n: int) -> str:
        """Look."""
        ran.append(n)
        return f"seen {n}"

    with model([("look", {"n": 1}), ("look", {"n": 2})], same_id=True) as service:
        failed = await _tolerant(stage.run(service.url, look))
        if failed:
            return "**the run fails**"
        ids = [message["tool_call_id"] for message in service.asked[-1] if message["role"] == "tool"]
    both = f"{len(ran)} run"
    return f"{both}, each with its own id" if len(set(ids)) == len(ids) else f"{both}, **two results with one id**"


async def identical(stage: Stage) -> str:
    ran: list[str] = []

    def look(city: str) -> str:
        """Look."""
        ran.append(city)
        return "sun"

    with model([("look", {"city": "Kleve"})] * 3) as service:
        await stage.run(service.url, look)
    return "runs once, three results" if len(ran) == 1 else f"runs {len(ran)} times"


async def unknown(stage: Stage) -> str:
    def find_order(number: int) -> str:
        """Find."""
        return "found"

    with model([("find_ordr", {"number": 1})]) as service:
        if await _tolerant(stage.run(service.url, find_order)):
            return "**the run fails**"
        return "the model is told the names" if "find_order" in service.results[0] else "the model is told"


async def raising(stage: Stage) -> str:
    def pay(number: int) -> str:
        """Pay."""
        raise RuntimeError("the till is closed")

    with model([("pay", {"number": 1})]) as service:
        if await _tolerant(stage.run(service.url, pay)):
            return "**the run fails**"
        return "the model reads why" if "till" in service.results[0] else "the model is told, not why"


async def cancelled(stage: Stage) -> str:
    ready, paid = asyncio.Event(), asyncio.Event()

    async def pay(number: int) -> str:
        """Pay."""
        paid.set()
        return f"paid {number}"

    async def wait(number: int) -> str:
        """Wait."""
        await paid.wait()
        await asyncio.sleep(0.1)  # for the framework to take note
        ready.set()
        await asyncio.sleep(20)
        return "waited"

    with model([("pay", {"number": 1}), ("wait", {"number": 2})]) as service:
        if await _tolerant(stage.run_cancelled(service.url, pay, wait, ready=ready)):
            return "**the conversation cannot go on**"
        return _after(service)


def _after(service: Service) -> str:
    kept = any("paid 1" in result for result in service.results)
    if service.unanswered:
        return f"**{service.unanswered} calls without results**: the service refuses"
    if not service.results:
        return "**both calls forgotten**, though one has paid"
    return "the payment is known" if kept else "told that it did not happen"


async def lost(stage: Stage) -> str:
    begun, end, paid = asyncio.Event(), asyncio.Event(), 0

    async def pay(number: int) -> str:
        """Pay."""
        nonlocal paid
        paid += 1
        if paid == 1:
            begun.set()
            await end.wait()
        return "paid"

    with model([("pay", {"number": 1})]) as service:
        await stage.run_lost(service.url, pay, begun)
        end.set()
        if paid > 1:
            return "**pays a second time**"
        if not service.results:
            return "**the call is forgotten**, and it may have paid"
        return "not paid again, and told so" if "not known" in service.results[0] else "not paid again"


async def asking(stage: Stage) -> str:
    happened: list[str] = []

    def pay(number: int) -> str:
        """Pay."""
        happened.append("ran")
        return "paid"

    with model([("pay", {"number": 1})]) as service:
        await stage.run_asking(service.url, pay, lambda: happened.append("asked"))
    match happened:
        case ["asked", "ran"]:
            return "the tool has not begun"
        case ["ran", "asked", "ran"]:
            return "a tool that stops itself **begins twice**"
        case _:
            return f"**{', '.join(happened)}**"


async def typed(stage: Stage) -> str:
    with model(answers=[{"number": "seventeen"}, {"number": 17}]) as service:
        try:
            value = await stage.run_typed(service.url, Order)
        except Exception:
            return "**the run fails**"
        told = str(service.asked[-1][1:]) if len(service.asked) == 2 else ""
    assert value == Order(17)
    return "told why, and answers again" if "integer" in told else "asked again"


async def endless(stage: Stage) -> str:
    ran: list[int] = []

    def look(n: int) -> str:
        """Look."""
        ran.append(n)
        return "nothing"

    with model([("look", {"n": 1})], for_ever=True) as service:
        failed = await _tolerant(stage.run(service.url, look, turns=3))
    return f"{failed} is raised" if failed else "ends in an answer"


async def long(stage: Stage) -> str:
    def read() -> str:
        """Read."""
        return "x" * LONG

    with model([("read", {})]) as service:
        await stage.run(service.url, read)
        size = len(service.results[0])
    return "**sent whole**" if size >= LONG else f"cut to {size:,} characters; the model can read on"


SCENES: dict[str, Callable[[Stage], Coroutine[Any, Any, str]]] = {
    "schema": schema,
    "timeout": timeout,
    "at once": at_once,
    "same id": same_id,
    "identical": identical,
    "unknown": unknown,
    "raising": raising,
    "cancelled": cancelled,
    "lost": lost,
    "asking": asking,
    "typed": typed,
    "endless": endless,
    "long": long,
}


async def _tolerant(run: Coroutine[Any, Any, None]) -> str:
    """The name of what a run raised; empty if it went well."""
    try:
        await run
    except Exception as error:
        return type(error).__name__
    return ""


async def cancel_when(ready: asyncio.Event, run: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.ensure_future(run)
    await ready.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def show(stage: Stage) -> None:
    """Print a line for each scene."""

    async def all_of_them() -> None:
        for name, scene in SCENES.items():
            print(f"{name}: {await scene(stage)}", flush=True)

    asyncio.run(all_of_them())
