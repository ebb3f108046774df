"""Answers by the ids that callers gave their calls: who asks again gets the same answer, and nothing runs twice.

An id is good for the one who gave it: the same id of another principal is another call.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.node.bus.streams import CapabilityResponse

MOST = 10_000
"""Answers that are kept."""
BYTES = 64 * 1024 * 1024
"""That they may take up together, as JSON."""
SECONDS = 600.0
"""That each is kept."""

Key = tuple[str, str]
"""A principal, and the id that it gave."""


class NoRoomForCall(BusError):
    """Nothing was begun: a call that is refused with it may come again, by the same id."""


class _KnownCall:
    __slots__ = ("answer", "over", "same", "tries", "until")

    def __init__(self, same: bytes) -> None:
        self.same = same
        """What was asked, so that the id cannot come to mean something else."""
        self.answer: bytes | BusError | None = None
        self.tries = 0
        """How often it was begun and came to nothing, and may be again: then it is another call to the executor."""
        self.until = 0.0
        self.over: asyncio.Future[None] | None = None
        """While it is under way: where whoever asks again waits."""

    @property
    def size(self) -> int:
        return len(self.answer) if isinstance(self.answer, bytes) else 0


class AnsweredCalls:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[Key, _KnownCall] = {}
        self._settled: OrderedDict[Key, _KnownCall] = OrderedDict()
        self._bytes = 0

    async def once(
        self,
        key: Key,
        same: bytes,
        settle: Callable[[str], Awaitable[CapabilityResponse]],
        *,
        again: bool,
        ended: Callable[[], CapabilityResponse | BusError | None] = lambda: None,
        until: float | None = None,
    ) -> CapabilityResponse:
        """The answer to a call, made by `settle(id)` unless there is one, or waited for `until` then.

        `again` says that one which was cancelled, or found no room below, may run once more; of any other `ended`
        tells what became of it when it was cancelled.

        Raises:
            BusError: That is its answer; or the id names another call, or that call takes too long (`timeout`).
        """
        while (flight := self._under_way.get(key)) is not None:
            _check(flight, same)
            flight.over = flight.over or asyncio.get_running_loop().create_future()
            await wait_for_flight(flight.over, until)
        if key in self._settled:
            self._forget()  # it may be too old by now
        known = self._settled.get(key)
        if known is None:
            known = _KnownCall(same)
        _check(known, same)
        match known.answer:
            case bytes() as response:
                return msgspec.json.decode(response, type=CapabilityResponse)
            case BusError() as error:
                raise BusError.from_dict(error.to_dict())
        return await self._settle(key, known, settle, again, ended)

    async def _settle(
        self,
        key: Key,
        known: _KnownCall,
        settle: Callable[[str], Awaitable[CapabilityResponse]],
        again: bool,
        ended: Callable[[], CapabilityResponse | BusError | None],
    ) -> CapabilityResponse:
        self._settled.pop(key, None)  # one without an answer, which has no size
        self._under_way[key] = known
        try:
            response = await settle(key[1] if not known.tries else f"{key[1]}~{known.tries}")
            known.answer = _answer(response)
            return response
        except NoRoomForCall:
            raise
        except BusError as error:
            if again and error.code in _LATER:
                known.tries += 1
            else:
                known.answer = error
            raise
        except asyncio.CancelledError:
            if again:
                known.tries += 1
            else:
                known.answer = _answer(ended() or _CANCELLED)
            raise
        finally:
            del self._under_way[key]
            if known.answer is not None or known.tries:
                self._keep(key, known)
            if known.over is not None:
                known.over.set_result(None)
                known.over = None

    def _keep(self, key: Key, known: _KnownCall) -> None:
        known.until = self._clock.monotonic() + SECONDS
        self._settled[key] = known
        self._bytes += known.size
        self._forget()

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._settled:
            key = next(iter(self._settled))
            if len(self._settled) <= MOST and self._bytes <= BYTES and self._settled[key].until > now:
                return
            self._bytes -= self._settled.pop(key).size

    def __contains__(self, key: Key) -> bool:
        """Whether it is under way, or has its answer."""
        return key in self._under_way or key in self._settled

    def __len__(self) -> int:
        return len(self._settled)


_LATER = ("capacity_exceeded", "rate_limited")
"""Whoever is told so comes again."""
_CANCELLED = BusError(
    "cancelled", "it was cancelled; what it had done by then may have taken effect", outcome="cancelled"
)


def _answer(found: CapabilityResponse | BusError) -> bytes | BusError:
    """As JSON, so that it stays what it was, whatever is done with the one that is given out."""
    return found if isinstance(found, BusError) else msgspec.json.encode(found)


async def wait_for_flight(flight: asyncio.Future[None], until: float | None) -> None:
    """Wait for a call under way, as long as whoever asks for it again does.

    Raises:
        BusError: That was too short (`timeout`).
    """
    left = None if until is None else until - asyncio.get_running_loop().time()
    await asyncio.wait({flight}, timeout=left)
    if not flight.done():
        raise BusError("timeout", "it is still under way; ask again by its id", outcome="timeout")


def _check(known: _KnownCall, same: bytes) -> None:
    if known.same != same:
        raise BusError("bad_request", "this call id already names another call; give each its own", outcome="failed")
