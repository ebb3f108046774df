"""One call at the caller: asked of a worker, perhaps of another one, and followed to its one end.

What may be done when nothing is heard follows from what is surely known. Before a worker said that it took the call,
nothing was begun that may not run twice: such calls wait for our word (`go`). After it, a call that may be made again
is made elsewhere; of any other the worker is asked what became of it, and if it cannot be asked, nobody knows.

What each message does in each state of `CallCertainty`. "Another" is a new attempt, from `idle`, at another worker.
"Lost" is another where the call may run again and nothing of its answer was given out, and else the error `partition`,
in doubt where the call may have taken effect.

| heard | `asked` | `word`: `go` was sent, once | `running` |
|---|---|---|---|
| `accepted`, `heartbeat` | running; if it `waits`, send `go`: word | running; if it `waits`, `go` again | the same |
| `chunk`, `result` | give it out: running, ended | the same | the same |
| `error` | ended; another if it says `begun: false` | the same | the same |
| `busy` | another | another | another |
| `unknown` | ended with `partition` | lost | lost |
| no listener | another; ended if none | another: our word reached nobody | lost, after the grace at the latest |
| connected again | another | ask for the status: running | ask for the status |
| nothing for a lease | another | ask for the status: running | ask once, then lost, at the latest after the grace |
| the caller gave up | ended; who takes it yet is told | tell the worker, wait for its end | the same |

A message with a `seq` beyond the next one is a gap: the worker is asked to send again what is missing. `idle` is before
each attempt, and nothing is heard in `ended`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from msgspec.structs import replace

from handrail.core.errors import BusError
from handrail.node.bus.outgoing_rights import encode_body
from handrail.node.nats.call_certainty import CallCertainty
from handrail.node.nats.link import Arrived, NatsLink, NoListener, Reconnected, read_worker_message
from handrail.node.nats.mailbox import Mailbox
from handrail.node.nats.message_parts import MOST
from handrail.node.nats.messages import (
    NatsAccepted,
    NatsBusy,
    NatsCancel,
    NatsChunk,
    NatsCredit,
    NatsFailure,
    NatsGo,
    NatsResult,
    NatsStatus,
    NatsUnknownCall,
    WorkerMessage,
)
from handrail.node.nats.nats_call import NatsCall
from handrail.node.nats.worker_choice import WorkerChoice

_SLACK = 0.25
"""Seconds after the deadline in which a worker's own answer may still arrive."""
_ATTEMPTS = 8
_REPAIRS = 5
"""The number of times a worker is asked for lost frames before the call is given up."""

_From = NatsAccepted | NatsBusy | NatsUnknownCall | NatsChunk | NatsResult | NatsFailure
"""What says which worker it is from."""


class CallerGaveUp:
    """Stands in place of a message: our caller wants the call to end."""


class CallExchange:
    def __init__(self, link: NatsLink, finding: WorkerChoice, ask: NatsCall) -> None:
        self._link = link
        self._finding = finding
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._box: Mailbox[tuple[str, Arrived | CallerGaveUp]] = Mailbox()
        """What arrived, and for which attempt."""
        self._ref = ""
        self._large = False
        """Whether the body goes with our word to begin."""
        self._attempts = 0
        self._words = 0
        self._at = CallCertainty(
            what=ask.capability,
            effect_possible=finding.pinned is not None,
            at_once=lambda: finding.may_begin_at_once,
        )
        self._lease = link.pace.lease
        self._credited = 0
        self._repairs = 0
        self._repair_until = 0.0
        self._lost_since: float | None = None
        self._cancelled_at: float | None = None

    async def next(self) -> NatsChunk | NatsResult:
        """The next chunk, or the end.

        Raises:
            BusError: It ended otherwise.
        """
        try:
            return await self._next()
        except BusError:
            self._end()
            raise

    async def _next(self) -> NatsChunk | NatsResult:
        if self._at.seq - self._credited >= max(self._ask.window // 2, 1):
            await self._tell(NatsCredit(ref=self._ref, upto=self._at.seq))
            self._credited = self._at.seq
        while True:
            if self._at.state == "idle":
                await self._send()
            item = await self._box.get(self._patience())
            if item is None:
                await self._silence()
                continue
            ref, arrived = item
            if ref != self._ref and not isinstance(arrived, CallerGaveUp):
                continue  # of an attempt that was given up: two streams must not be mixed
            message = read_worker_message(arrived) if isinstance(arrived, bytes) else arrived
            if (found := await self._heard(message)) is not None:
                if isinstance(found, NatsResult):
                    self._end()
                return found

    def cancel(self) -> None:
        if self._at.state == "ended":
            return
        self._box.put((self._ref, CallerGaveUp()))
        if self._at.taken is not None:  # at once, whether or not anybody reads on
            self._link.later(self._tell(NatsCancel(ref=self._ref)))

    async def close(self) -> None:
        """Leave it: what is under way is cancelled."""
        if self._at.state == "ended":
            return
        asked = self._at.state != "idle"
        self._end()
        if self._at.taken is not None:
            await self._tell(NatsCancel(ref=self._ref))
        elif asked:
            cancel_when_taken(self._link, self._finding.worker, self._ref, self._lease)

    @property
    def seq(self) -> int:
        return self._at.seq

    @property
    def ref(self) -> str:
        return self._ref

    @property
    def worker(self) -> str | None:
        return None if self._at.taken is None else self._at.taken.worker

    # ── asking ───────────────────────────────────────────────────────────────────────────

    async def _send(self) -> None:
        """Ask somebody; the attempts are counted, and the deadline is theirs together."""
        if self._attempts >= _ATTEMPTS:
            last = self._finding.last
            raise self._at.partition("no worker took the call") if last is None else self._at.truly(last)
        self._attempts += 1
        if self._left(1.0) <= 0:
            raise self._at.late()
        if not self._link.is_up and not await self._link.wait_up(self._left(self._link.pace.grace)):
            raise self._at.partition("there is no connection to NATS")
        try:
            subject = await self._finding.subject()
        except BusError as error:
            await self._nobody_there(error)
            return
        self._link.forget(self._ref)
        self._ref = secrets.token_hex(12)
        ref = self._ref
        reply = self._link.expect(ref, lambda arrived: self._box.put((ref, arrived)))
        request = self._ask.request(self._ref, self._finding.community)
        payload = encode_body(request)
        if len(payload) > MOST:
            raise BusError("bad_request", f"a call of {len(payload)} bytes is more than {MOST}; send it as a blob")
        self._large = not self._link.fits(payload)
        if self._large:
            payload = encode_body(replace(request, body=None))
        self._at.state, self._at.taken, self._lost_since, self._words = "asked", None, None, 0
        if not await self._link.send_bytes(subject, payload, reply):
            self._at.state = "idle"  # the connection broke just now; wait for it above

    async def _elsewhere(self, worker: str | None, why: BusError | None = None) -> None:
        """Ask another. Only for what was surely not begun, or may be made again."""
        self._finding.avoid(worker, why)
        self._at.state, self._at.taken = "idle", None
        if self._finding.pinned is not None and not await self._finding.inherit(worker):
            raise self._at.partition("the worker that began this call cannot say what happened to it")
        if self._cancelled_at is not None:
            raise self._at.cancelled()

    # ── what is heard ────────────────────────────────────────────────────────────────────

    async def _heard(
        self, message: WorkerMessage | NoListener | Reconnected | CallerGaveUp | None
    ) -> NatsChunk | NatsResult | None:
        match message:
            case NoListener():
                await self._nobody()
                return None
            case Reconnected():
                await self._reconnected()
                return None
            case CallerGaveUp():
                await self._give_up()
                return None
        if isinstance(message, _From) and message.worker and self.worker not in (None, message.worker):
            await self._anothers(message)
            return None
        self._lost_since = None
        word, self._at.state = self._at.state == "word", "running" if self._at.state == "word" else self._at.state
        match message:
            case NatsAccepted():
                await self._accepted(message, word)
            case NatsBusy():
                self._finding.not_begun(self._ask.call_id)
                await self._elsewhere(message.worker, BusError.from_dict(message.error))
            case NatsUnknownCall():
                await self._unknown()
            case NatsChunk() | NatsResult() | NatsFailure():
                return await self._in_order(message)
        return None

    async def _anothers(self, message: _From) -> None:
        """Our question was doubled on the way, and two workers have it. The first is enough."""
        if isinstance(message, NatsAccepted):
            await self._link.send(self._finding.worker(message.worker), NatsCancel(ref=self._ref))

    async def _in_order(self, message: NatsChunk | NatsResult | NatsFailure) -> NatsChunk | NatsResult | None:
        if message.seq <= self._at.seq:
            return None  # a second time
        if message.seq > self._at.seq + 1:
            await self._repair()
            return None
        self._at.seq, self._repairs, self._repair_until = message.seq, 0, 0.0
        self._at.state = "running"
        if not isinstance(message, NatsFailure):
            return message
        error = BusError.from_dict(message.error)
        not_begun = error.details.get("begun") is False and not error.is_nested
        if not_begun and self._cancelled_at is None:
            self._at.seq = 0
            self._finding.not_begun(self._ask.call_id)
            await self._elsewhere(self.worker, error)
            return None
        raise error if self._finding.pinned is not None else self._at.truly(error)

    async def _accepted(self, message: NatsAccepted, word: bool) -> None:
        first, self._at.taken = self._at.taken is None, message
        self._lease = max(message.lease_ms / 1000, 0.01)
        if self._cancelled_at is not None and first:
            await self._tell(NatsCancel(ref=self._ref))
            raise self._at.cancelled()
        self._finding.learn(message)
        if message.waits:
            await self._begin(message)
            return
        if word or self._at.state == "asked":
            self._at.state = "running"
        if message.seq > self._at.seq:
            await self._repair()
        elif self._at.seq and not first:  # the worker may be waiting for credit that was lost
            await self._tell(NatsCredit(ref=self._ref, upto=self._at.seq))

    async def _begin(self, taken: NatsAccepted) -> None:
        """Our word. From here on it may have taken effect.

        Only what the first one meets says anything for sure: if that reached nobody, nothing was begun.
        """
        body = self._ask.body if self._large else None
        self._at.state = "running" if self._words else "word"
        self._words += 1
        if not taken.retriable:
            self._finding.begins(self._ask.call_id, taken.worker)
        await self._tell(NatsGo(ref=self._ref, timeout_ms=self._ask.timeout_ms, body=body), heard=True)

    async def _nobody(self) -> None:
        """Nobody listens where we asked last."""
        if self._at.state == "asked":
            try:
                await self._finding.nobody()
            except BusError as error:
                await self._nobody_there(error)
            else:
                await self._elsewhere(self._finding.direct)
        elif self._at.state == "word":
            self._finding.not_begun(self._ask.call_id)
            await self._elsewhere(self.worker)  # our word reached nobody
        elif self._at.again:
            self._at.lost()
            await self._elsewhere(self.worker)
        elif self._lost_since is None:
            self._lost_since = self._loop.time()

    async def _nobody_there(self, error: BusError) -> None:
        """Nobody can be asked. After a restart of the server, workers may take a moment longer than we to come back."""
        just_back = self._loop.time() < self._link.came_back_at + self._link.pace.grace
        if error.code == "partition" and just_back:
            await asyncio.sleep(min(self._link.pace.heartbeat, max(self._left(1.0), 0.0)))
            self._attempts -= 1
            self._finding.forgive()
            self._at.state = "idle"
            return
        raise self._at.partition(error.message) if self._at.effect_possible else error

    async def _unknown(self) -> None:
        if not self._at.again:
            if await self._inherited():
                return
            raise self._at.partition("the worker knows nothing of the call any more")
        self._at.lost()
        await self._elsewhere(None)

    async def _inherited(self) -> bool:
        """Ask another worker that has the record of the one that is lost; False if there is none, or if something of
        the answer was given out already."""
        if self.worker is None or self._at.seq or self._cancelled_at is not None:
            return False
        self._finding.pin(self.worker)
        if not await self._finding.inherit(self.worker):
            return False
        self._at.lost()
        self._at.state, self._at.taken, self._lost_since = "idle", None, None
        return True

    async def _reconnected(self) -> None:
        """What was on its way is perhaps lost."""
        if self._at.taken is not None:
            await self._ask_after()
        elif self._at.state == "asked":
            await self._not_taken()

    async def _not_taken(self) -> None:
        """Nobody said that they have it. What waits for our word was not begun, and other things may run again."""
        self._at.lost()
        if self._at.seq:
            raise self._at.partition("the worker was lost in the middle of its answer")
        await self._elsewhere(None)

    async def _repair(self) -> None:
        """A frame is missing: have it sent again, or give up; never go on without."""
        if self._at.taken is None:
            return  # who has it is said with the next heartbeat
        now = self._loop.time()
        if now < self._repair_until:
            return  # it is on its way
        self._repair_until = now + self._lease / 3
        self._repairs += 1
        if self._repairs > _REPAIRS:
            raise self._at.partition("frames of the answer were lost")
        await self._ask_after()

    # ── what is not heard ────────────────────────────────────────────────────────────────

    async def _silence(self) -> None:
        now = self._loop.time()
        if self._cancelled_at is not None and now >= self._cancelled_at + self._lease:
            raise self._at.cancelled()
        if self._left(1.0) <= -_SLACK:
            await self._tell(NatsCancel(ref=self._ref))
            raise self._at.late()
        if self._at.taken is None:
            await self._not_taken()
            return
        if self._lost_since is None:
            self._lost_since = now
        elif self._at.again and self._link.is_up:
            self._at.lost()
            await self._elsewhere(self.worker)
            return
        if now >= self._lost_since + self._link.pace.grace:
            if await self._inherited():
                return
            raise self._at.partition("the worker was lost, and nobody knows what happened to the call")
        await self._ask_after()

    async def _ask_after(self) -> None:
        if self._at.state == "word":
            self._at.state = "running"  # "nobody" is no longer an answer to our word alone
        await self._tell(NatsStatus(ref=self._ref, after=self._at.seq), heard=True)

    def _patience(self) -> float:
        """Seconds to wait for the next message before acting on the silence."""
        wait = self._lease if self._lost_since is None else self._lease / 3
        if self._cancelled_at is not None:
            wait = min(wait, max(self._cancelled_at + self._lease - self._loop.time(), 0.0))
        if self._ask.terms.deadline is not None:
            wait = min(wait, max(self._ask.terms.deadline + _SLACK - self._loop.time(), 0.0))
        return wait

    # ── how it ends ──────────────────────────────────────────────────────────────────────

    async def _give_up(self) -> None:
        if self._cancelled_at is not None:
            return
        self._cancelled_at = self._loop.time()
        if self._at.taken is None:
            cancel_when_taken(self._link, self._finding.worker, self._ref, self._lease)
            raise self._at.cancelled()
        await self._tell(NatsCancel(ref=self._ref))

    def _end(self) -> None:
        self._at.state = "ended"
        self._link.forget(self._ref)

    async def _tell(self, message: NatsGo | NatsCredit | NatsCancel | NatsStatus, *, heard: bool = False) -> None:
        if self._at.taken is not None:
            reply = f"{self._link.prefix}.{self._ref}" if heard else ""
            await self._link.send(self._finding.worker(self._at.taken.worker), message, reply)

    def _left(self, otherwise: float) -> float:
        return otherwise if self._ask.terms.deadline is None else self._ask.terms.deadline - self._loop.time()


def cancel_when_taken(link: NatsLink, subject: Callable[[str], str], ref: str, seconds: float) -> None:
    """Cancels a call that nobody has said to have: at any worker that still accepts it within the given time.

    `subject` gives the subject of a worker.
    """

    def late(arrived: Arrived) -> None:
        message = read_worker_message(arrived) if isinstance(arrived, bytes) else None
        if isinstance(message, NatsAccepted):
            link.forget(ref)
            link.later(link.send(subject(message.worker), NatsCancel(ref=ref)))

    link.expect(ref, late)
    asyncio.get_running_loop().call_later(seconds, link.forget, ref)
