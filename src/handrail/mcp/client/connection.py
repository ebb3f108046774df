"""A connection to an MCP server that repairs itself.

Each try is a `ServerLink` in a task of its own; the one here supervises: it begins the
next when one has ended, ever later, and says to whom it waits. Whoever uses a
connection does so in their own task, which the loss of it can never cancel.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from mcp import Client

from handrail.core.backoff import longest_wait
from handrail.core.errors import McpError, ServerLost, SignInFailed, UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import redact_text
from handrail.core.timeouts import time_limit
from handrail.mcp.client.failures import ATTEMPT, McpConnectionLost, SendAttempt, clean_server_text, translate_error
from handrail.mcp.client.head_start import StartedServer
from handrail.mcp.client.inbox import NoticeThrottle, OnMessage
from handrail.mcp.client.server_link import ServerLink
from handrail.mcp.values import Endpoint, HttpEndpoint, McpLinkTerms, ServerFacts

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
STEADY = 10.0
"""Seconds after which a connection that breaks was a good one."""
_MOST_BREAKS = 4
"""The most breaks that count for the delay. A server that can be reached every time is not one to keep away from."""


class ReconnectBackoff:
    """Counts failures in a row. After `most` of them nobody waits for the next try any more."""

    def __init__(self, most: int, clock: Clock, chance: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._chance = chance
        self._breaks = 0
        """In a row, of connections that did not last."""
        self._since = 0.0
        self._next = 0.0
        self.failures = 0

    def began(self) -> None:
        """Notes that there is a connection."""
        self.failures = 0
        self._since = self._clock.monotonic()

    def broke(self) -> None:
        """A connection that was there is gone."""
        lasted = self._clock.monotonic() - self._since
        self._breaks = 1 if lasted >= STEADY else self._breaks + 1

    def failed(self) -> None:
        """Count an attempt to connect that failed."""
        self.failures += 1

    def delay(self) -> float:
        """Seconds to wait now: any number up to a bound that doubles, so that many who fail together part."""
        tries = min(self._breaks, _MOST_BREAKS) + self.failures
        wait = self._chance() * longest_wait(tries, FIRST_DELAY, LONGEST_DELAY)
        self._next = self._clock.monotonic() + wait
        return wait

    @property
    def exhausted(self) -> bool:
        return self.failures >= self._most

    @property
    def remaining(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._next - self._clock.monotonic())


T = TypeVar("T")
State = Literal["new", "connecting", "ready", "lost", "closed"]

_PATIENCE = 10.0
"""Seconds for one connection to end, before it is cancelled."""
_KEPT_ERRORS = 5
_LAST_LINES = 20
_PERSON = 1.0
"""The seconds between two looks at whether a person is still signing in."""


def _ignore_state(what: str) -> None:
    """Listens to nothing."""


class McpConnection:
    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        terms: McpLinkTerms = McpLinkTerms(),
        *,
        clock: Clock | None = None,
        on_change: Callable[[str], None] = _ignore_state,
        on_tools: Callable[[], None] = lambda: None,
        on_message: OnMessage | None = None,
        chance: Callable[[], float] = random.random,
        started: StartedServer | None = None,
    ) -> None:
        """`on_change` is called in the loop with `tools`, `resources`, `prompts` or `resource:<uri>`, several notices
        taken for one, and with `lost` and `ready` when that happens; not with the `ready` that `open` waits for.
        `on_tools` is called with each notice of changed tools at once, however many there are. `on_message` is called
        with every notification that means nothing to us. `started` is the server's program, if it runs already."""
        self._started = started
        self.name = name
        self.endpoint = endpoint
        self._terms = terms
        self._bounds = terms.bounds
        self._clock = clock or SystemClock()
        self._notices = NoticeThrottle(terms.bounds.settle, on_change, self._clock)
        self._on_tools = on_tools
        self._on_message = on_message
        self._shakes_hands = terms.era == "auto" and terms.relay is not None and terms.relay.shakes_hands
        self._backoff = ReconnectBackoff(terms.bounds.failures, self._clock, chance)
        self._errors: deque[str] = deque(maxlen=_KEPT_ERRORS)
        self._said = ""
        self._state: State = "new"
        self._moved = asyncio.Event()
        self._live: ServerLink | None = None
        """The one that can be used now."""
        self._lives: set[ServerLink] = set()
        self._refusal: SignInFailed | None = None
        self._facts: ServerFacts | None = None
        self._watched: tuple[str, ...] = ()
        self._supervising: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def facts(self) -> ServerFacts:
        """What the server said about itself when it was last reached.

        Raises:
            McpError: It never was.
        """
        if self._facts is None:
            raise McpError(self.name, "it was never reached" + _after(self._diagnosis()))
        return self._facts

    @property
    def diagnosis(self) -> str:
        """The last errors, and the last lines that the program said on its standard error."""
        return self._diagnosis(_KEPT_ERRORS, _LAST_LINES)

    def _diagnosis(self, errors: int = 1, lines: int = 5) -> str:
        said = self._live.said if self._live is not None else self._said
        last = said.splitlines()[-lines:]
        told = [*list(self._errors)[-errors:], *(["it said:", *map(clean_server_text, last)] if last else [])]
        return redact_text("\n".join(told))

    async def open(self) -> None:
        """Connect. If that fails it is tried again in the background all the same, until `aclose`.

        Raises:
            McpError: The first try failed, with the diagnosis.
        """
        if self._state != "new":
            raise UsageError(f"the connection to MCP server {self.name!r} was opened before; make another one")
        self._move("connecting")
        first = self._first = asyncio.get_running_loop().create_future()
        supervising = self._supervise(first)
        self._supervising = asyncio.get_running_loop().create_task(supervising, name=f"handrail-mcp-{self.name}")
        await asyncio.shield(first)

    async def aclose(self) -> None:
        """End it, and every program that was started for it. Whoever waits for an answer has an error."""
        self._live = None
        self._move("closed")
        if self._first is not None:
            _settle(self._first, McpError(self.name, "it was closed"))
        # In a task of its own: who waits here may be cancelled, and the program must end all the same.
        if self._supervising is not None:
            self._supervising.cancel()
        ending = asyncio.get_running_loop().create_task(self._end(), name=f"handrail-mcp-{self.name}")
        await asyncio.shield(ending)

    async def _end(self) -> None:
        if self._supervising is not None:
            await asyncio.wait({self._supervising})
        await asyncio.gather(*(life.stop("it was closed", _PATIENCE) for life in list(self._lives)))
        await self._notices.aclose()

    async def watch(self, uri: str) -> None:
        """Hear of changes of a resource as `resource:<uri>`, over this connection and those that come after it."""
        if uri in self._watched:
            return
        self._watched = (*self._watched, uri)
        try:
            await self.use(lambda client: self._subscribe(client, (uri,)), resend=True)
        except BaseException:
            self._watched = tuple(each for each in self._watched if each != uri)
            raise

    async def unwatch(self, uri: str) -> None:
        """Hear of its changes no more."""
        if uri not in self._watched:
            return
        self._watched = tuple(each for each in self._watched if each != uri)
        await self.use(lambda client: self._unsubscribe(client, uri), resend=True)

    async def _unsubscribe(self, client: Client, uri: str) -> None:
        if self._live is not None and self._live.inbox.modern:
            self._live.watch(self._watched)
            return
        import mcp_types

        params = mcp_types.UnsubscribeRequestParams(uri=uri)
        await client.session.send_request(mcp_types.UnsubscribeRequest(params=params), mcp_types.EmptyResult)

    async def _subscribe(self, client: Client, uris: tuple[str, ...]) -> None:
        if self._live is not None and self._live.inbox.modern:
            self._live.watch(self._watched)
            return
        import mcp_types

        for uri in uris:
            params = mcp_types.SubscribeRequestParams(uri=uri)
            await client.session.send_request(mcp_types.SubscribeRequest(params=params), mcp_types.EmptyResult)

    # ── use ──────────────────────────────────────────────────────────────────────────

    async def use(self, work: Callable[[Client], Awaitable[T]], *, resend: bool, wait: float | None = None) -> T:
        """Do something with the server. The loss of the connection never cancels who waits here.

        What was lost before anything of it was sent is done again over the next connection; what may have been
        sent, only with `resend`. Nothing is done more than twice.

        Raises:
            ServerLost: The connection was not there, or broke; `sent` says whether the server may have heard.
            ServerRefused: The server answered with an error.
            McpError: What it answered cannot be used.
            TimeoutError: A request took longer than `work` allowed.
        """
        again = False
        while True:
            life = self._live or await self._next(self._bounds.start if wait is None else wait)
            assert life.client is not None
            attempt = SendAttempt()
            token = ATTEMPT.set(attempt)
            life.users += 1
            try:
                return await work(life.client)
            except Exception as error:
                raised = translate_error(self.name, error, over=life.inbox.over)
                if not isinstance(raised, McpConnectionLost):
                    raise raised from (None if raised is error else error)
                self._lost(life, raised.why)
                if again or self._state == "closed" or (attempt.sent and not resend):
                    raise raised.told(self.name, sent=attempt.sent) from error
            finally:
                ATTEMPT.reset(token)
                life.leave()
            again = True

    def _lost(self, life: ServerLink, why: str) -> None:
        life.retire(why)
        if life is self._live:
            self._live = None

    async def _next(self, wait: float) -> ServerLink:
        """The connection as soon as there is one.

        Raises:
            ServerLost: There is none in time, or nobody waits for one any more.
        """
        try:
            async with time_limit(wait):
                while self._live is None:
                    self._refuse_to_wait()
                    await self._moved.wait()
        except TimeoutError:
            raise ServerLost(
                self.name, f"there is no connection after {wait:g} s" + _after(self._diagnosis()), sent=False
            ) from None
        return self._live

    def _refuse_to_wait(self) -> None:
        match self._state:
            case "new":
                raise UsageError(f"the connection to MCP server {self.name!r} is not open")
            case "closed":
                raise ServerLost(self.name, "the connection was closed", sent=False)
        if self._refusal is not None:
            raise self._refusal
        if self._backoff.exhausted:
            next_try = f"the next try is in {self._backoff.remaining:.0f} s" if self._backoff.remaining else "trying"
            failures = f"{self._backoff.failures} connections in a row failed"
            raise ServerLost(self.name, f"{failures}; {next_try}" + _after(self._diagnosis()), sent=False)

    # ── supervision ──────────────────────────────────────────────────────────────────

    async def _supervise(self, first: asyncio.Future[None]) -> None:
        while self._refusal is None:
            await self._once(first)
            await self._clock.sleep(self._backoff.delay())

    async def _once(self, first: asyncio.Future[None]) -> None:
        """Makes one connection, and stays until it can be used no more."""
        self._move("connecting")
        life = self._begin()
        failure = await self._reached(life)
        if failure is not None and life.knows_no_handshake:
            self._shakes_hands = False
            return await self._once(first)
        if failure is not None:
            self._backoff.failed()
            self._gone(life, failure.why)
            if isinstance(failure, SignInFailed):
                self._refusal = failure
            self._move("lost")
            _settle(first, _failure_with_details(self.name, failure, self._diagnosis(1, _LAST_LINES)))
            return
        self._backoff.began()
        self._live, self._facts = life, life.facts
        self._move("ready")
        if first.done():
            self._notices.tell("ready")
        _settle(first, None)
        await self._watch_again(life)
        await life.over.wait()
        if life.alone:
            await asyncio.wait({life.task})
        self._backoff.broke()
        self._gone(life, life.why)
        self._move("lost")
        self._notices.tell("lost")

    def _begin(self) -> ServerLink:
        started, self._started = self._started, None
        life = ServerLink(
            self.name,
            self.endpoint,
            self._terms,
            self._clock,
            self._noticed,
            self._on_message,
            shakes_hands=self._shakes_hands,
            started=started,
        )
        self._lives.add(life)
        life.task.add_done_callback(lambda _: self._lives.discard(life))
        return life

    def _noticed(self, what: str) -> None:
        if what == "tools":
            self._on_tools()
        self._notices.add(what)

    async def _reached(self, life: ServerLink) -> McpError | None:
        """Wait until it can be used; or why it cannot. A person who signs in has all the time they need."""
        wait = self._bounds.start
        while True:
            done, _ = await asyncio.wait({life.ready}, timeout=wait)
            if done:
                error = life.ready.exception()
                if error is not None:
                    await asyncio.wait({life.task}, timeout=_PATIENCE)  # then it has said all it has to say
                return error if error is None or isinstance(error, McpError) else McpError(self.name, str(error))
            if not self._signing_in():
                await life.stop("", _PATIENCE)
                return McpError(self.name, f"it was not ready within {self._bounds.start:g} s")
            wait = _PERSON

    def _signing_in(self) -> bool:
        sign_in = self._terms.sign_in
        return isinstance(self.endpoint, HttpEndpoint) and sign_in is not None and sign_in.waiting(self.endpoint.url)

    async def _watch_again(self, life: ServerLink) -> None:
        if self._watched and not life.over.is_set():
            try:
                await self.use(lambda client: self._subscribe(client, self._watched), resend=False, wait=0)
            except (McpError, TimeoutError) as error:
                self._errors.append(str(error))

    def _gone(self, life: ServerLink, why: str) -> None:
        if self._live is life:
            self._live = None
        self._said = life.said
        if not self._errors or self._errors[-1] != why:
            self._errors.append(why)

    def _move(self, state: State) -> None:
        if self._state != "closed":
            self._state = state
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _settle(first: asyncio.Future[None], error: McpError | None) -> None:
    if first.done():
        return
    if error is None:
        first.set_result(None)
    else:
        first.set_exception(error)
        first.exception()  # taken: who called `open` may be gone


def _failure_with_details(name: str, failure: McpError, diagnosis: str) -> McpError:
    """The failure with all that is known about it."""
    if isinstance(failure, SignInFailed):
        return failure
    return McpError(name, diagnosis or failure.why)


def _after(diagnosis: str) -> str:
    return f": {diagnosis}" if diagnosis else ""
