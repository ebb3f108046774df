"""A run against a service on this machine that fails as it is told to, in OpenAI's Chat Completions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from handrail import Conversation, Executor, Limits, Policy, Runner, ToolResult, create_llm, tool
from handrail.core.context import Context
from handrail.core.events import Event, Notice, Recorded, ReplyFailed, TextDelta
from handrail.core.messages import ResultMessage
from handrail.core.redact import Secret
from handrail.testing.clock import FixedClock
from handrail.testing.ids import CountedIds
from handrail.testing.journal import MemoryJournal
from tests.models.openai_chat.streams import USAGE, call, chunk
from tests.models.raw_reply_server import RawReplyServer, Reply, serving, sse, streamed, whole

KEY = "canary-5f1e9b8c7d6a"
DONE = b"[DONE]"


def said(text: str) -> Reply:
    return streamed(sse(chunk({"role": "assistant", "content": text}), chunk({}, "stop"), chunk(usage=USAGE), DONE))


def called(*calls: tuple[str, str], ids: tuple[str, ...] = ()) -> Reply:
    """Calls by name and by the text of their arguments."""
    named = ids or tuple(f"call_{number}" for number in range(len(calls)))
    pieces = [chunk(call(at, named[at], name, text)) for at, (name, text) in enumerate(calls)]
    return streamed(sse(*pieces, chunk({}, "tool_calls"), chunk(usage=USAGE), DONE))


def busy(**headers: str) -> Reply:
    return whole({"error": {"message": "slow down"}}, status=429, **headers)


def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


class RecordedEffects:
    """Tools that keep what they were called with."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.at_once = self.most_at_once = 0
        numbers = count(1)

        @tool(side_effects=False)
        async def look(city: str, days: int = 1) -> str:
            """Look up the weather."""
            self.ran.append(("look", city))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(0)
            self.at_once -= 1
            return f"{city}: sun"

        @tool(side_effects=True)
        async def pay(to: str, amount: int) -> str:
            """Pay someone."""
            self.ran.append(("pay", to, amount))
            return f"receipt {next(numbers)}"

        @tool(side_effects=True)
        async def log_in(user: str, password: Secret, tries: int = 1) -> str:
            """Log in."""
            self.ran.append(("log_in", user))
            return "in"

        self.tools = [look, pay, log_in]


class FailingServiceRun:
    """One service, one model, one journal, and what came of it."""

    def __init__(
        self, server: RawReplyServer, executor: Executor, journal: MemoryJournal, effects: RecordedEffects
    ) -> None:
        self.server = server
        self.journal = journal
        self.ran = effects.ran
        self.effects = effects
        self.events: list[Event] = []
        self._executor = executor
        self.runner: Runner

    async def ask(self, words: str = "go", run: str = "run_1", **more: Any) -> Conversation:
        async def emit(event: Event) -> None:
            self.events.append(event)

        async with asyncio.timeout(60):
            return await self.runner.run(Conversation().say(words), Context(run=run), emit, **more)

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def failures(self) -> list[ReplyFailed]:
        """As the record has them."""
        return failures(self.journal.events)


def failures(events: list[Recorded]) -> list[ReplyFailed]:
    return [event for event in events if isinstance(event, ReplyFailed)]


def results(conversation: Conversation) -> list[ToolResult]:
    return [message.result for message in conversation.messages if isinstance(message, ResultMessage)]


@asynccontextmanager
async def scene(
    *replies: Reply,
    limits: Limits = Limits(),
    policy: Policy = Policy(confirm_side_effects=False),
    clock: FixedClock | None = None,
    chance: Callable[[], float] = lambda: 0.5,
    **options: Any,
) -> AsyncIterator[FailingServiceRun]:
    effects, journal, clock = RecordedEffects(), MemoryJournal(), clock or FixedClock()
    async with (
        serving(*replies) as server,
        Executor(effects.tools, policy=policy, journal=journal, clock=clock) as executor,
        create_llm(
            "compatible:qwen3",
            base_url=f"{server.url}/v1",
            key=KEY,
            clock=clock,
            chance=chance,
            **options,
        ) as llm,
    ):
        made = FailingServiceRun(server, executor, journal, effects)
        made.runner = Runner(llm.model, executor, limits, defaults=llm.defaults, new_id=CountedIds())
        yield made


class SharedClock(FixedClock):
    """Time for several runs: it stands still while any of them works, and jumps when all of them sleep."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self._awake = runs
        self._asleep: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        wake = asyncio.Event()
        self._asleep.append((self.monotonic() + seconds, wake))
        self._fewer()
        await wake.wait()
        self._awake += 1

    def done(self, task: asyncio.Task[Any]) -> None:
        """A run has ended, and is waited for no more."""
        self._fewer()

    def _fewer(self) -> None:
        self._awake -= 1
        if self._awake == 0 and self._asleep:
            due = min(self._asleep, key=lambda sleeper: sleeper[0])
            self._asleep.remove(due)
            self.advance(max(0.0, due[0] - self.monotonic()))
            due[1].set()
