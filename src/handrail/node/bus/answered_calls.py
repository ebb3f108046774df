"""Remembers answers by the ids that callers gave their calls: a retry gets the same answer, and nothing runs twice.

An id is good for the one who gave it: the same id of another principal is another call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.core.single_flight import Flight, SingleFlight
from handrail.node.bus.streams import CapabilityResponse

MOST = 10_000
"""Answers that are kept."""
BYTES = 64 * 1024 * 1024
"""The most bytes of remembered answers together, as JSON."""
SECONDS = 600.0
"""The time that each answer is kept."""

Key = tuple[str, str]
"""A principal, and the id that it gave."""
N = TypeVar("N")


class NothingBegun(BusError):
    """This process began nothing: a call that is refused with it may come again, by the same id."""


class KnownLater(BusError):
    """This process made the call and could not record what came of it. Whoever asks again by the same id is told what
    the record says by then, which another replica may have written; until there is something, this stays the answer."""


class _KnownCall:
    __slots__ = ("answer", "same", "tries")

    def __init__(self, same: bytes) -> None:
        self.same = same
        """What was asked, so that the id cannot come to mean something else."""
        self.answer: bytes | BusError | None = None
        self.tries = 0
        """How often it was begun and failed, and may be again: then it is another call to the executor."""

    def check(self, same: bytes) -> None:
        if self.same != same:
            why = "this call id already names another call; give each its own"
            raise BusError("bad_request", why, outcome="failed")


class AnsweredCalls:
    """The calls of callers that gave them ids: under way, or answered recently."""

    def __init__(self, clock: Clock) -> None:
        self._flights: SingleFlight[Key, None] = SingleFlight()
        self._settled = BoundedMemory[Key, _KnownCall](
            MOST, weight=_size, most_weight=BYTES, seconds=SECONDS, now=clock.monotonic
        )

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
        known = self._settled.get(key) or _KnownCall(same)
        with await lead(self._flights, key, known, until=until, may_wait=lambda flown: flown.check(same)):
            known = self._settled.get(key) or known
            known.check(same)
            match known.answer:
                case bytes() as response:
                    return msgspec.json.decode(response, type=CapabilityResponse)
                case KnownLater():
                    pass
                case BusError() as error:
                    raise BusError.from_dict(error.to_dict())
            try:
                return await self._run(key[1], known, settle, again, ended)
            finally:
                if known.answer is not None or known.tries:
                    self._settled[key] = known

    async def _run(
        self,
        id: str,
        known: _KnownCall,
        settle: Callable[[str], Awaitable[CapabilityResponse]],
        again: bool,
        ended: Callable[[], CapabilityResponse | BusError | None],
    ) -> CapabilityResponse:
        try:
            response = await settle(id if not known.tries else f"{id}~{known.tries}")
            known.answer = _stored_form(response)
            return response
        except NothingBegun as error:
            if not isinstance(known.answer, KnownLater) or error.outcome == known.answer.outcome:
                raise
            raise KnownLater.from_dict(known.answer.to_dict()) from None
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
                known.answer = _stored_form(ended() or _CANCELLED)
            raise

    def __contains__(self, key: Key) -> bool:
        """Whether it is under way, or has its answer."""
        return key in self._flights or key in self._settled

    def __len__(self) -> int:
        return len(self._settled)


_LATER = ("capacity_exceeded", "rate_limited")
"""The error for a call that is still under way: whoever gets it asks again."""
_CANCELLED = BusError(
    "cancelled", "it was cancelled; what it had done by then may have taken effect", outcome="cancelled"
)


def _stored_form(found: CapabilityResponse | BusError) -> bytes | BusError:
    """Returns the answer as JSON, so that later changes to the response do not change it."""
    return found if isinstance(found, BusError) else msgspec.json.encode(found)


def _size(known: _KnownCall) -> int:
    return len(known.answer) if isinstance(known.answer, bytes) else 0


async def lead(
    flights: SingleFlight[Key, None], key: Key, note: N, *, until: float | None, may_wait: Callable[[N], None]
) -> Flight[Key, None]:
    """Wait for a call under way, as long as whoever asks for it again does.

    Raises:
        BusError: That was too short (`timeout`), or `may_wait` refused.
    """
    try:
        return await flights.lead(key, note, until=until, may_wait=may_wait)
    except TimeoutError:
        raise BusError("timeout", "it is still running; ask again with its id", outcome="timeout") from None
