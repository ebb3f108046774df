"""Answers by the ids that callers gave their calls: who asks again gets the same answer, and nothing runs twice.

An id is good for the one who gave it: the same id of another principal is another call.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from handrail.bus.streams import Response
from handrail.core.errors import BusError
from handrail.core.ports import Clock

MOST = 10_000
"""Answers that are kept."""
BYTES = 64 * 1024 * 1024
"""That they may take up together, as JSON."""
SECONDS = 600.0
"""That each is kept."""

Key = tuple[str, str]
"""A principal, and the id that it gave."""


class _Known:
    __slots__ = ("answer", "cancelled", "same", "until")

    def __init__(self, same: bytes) -> None:
        self.same = same
        """What was asked, so that the id cannot come to mean something else."""
        self.answer: bytes | BusError | None = None
        self.cancelled = 0
        """How often, where it may be asked for again: then it is another call to the executor."""
        self.until = 0.0

    @property
    def size(self) -> int:
        return len(self.answer) if isinstance(self.answer, bytes) else 0


class Replays:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[Key, tuple[_Known, asyncio.Future[None]]] = {}
        self._settled: OrderedDict[Key, _Known] = OrderedDict()
        self._bytes = 0

    async def once(
        self,
        key: Key,
        same: bytes,
        settle: Callable[[str], Awaitable[Response]],
        *,
        again: bool,
    ) -> Response:
        """The answer to a call, made by `settle(id)` unless there is one. `again` says that a cancelled one may be.

        Raises:
            BusError: That is its answer; or the id names another call.
        """
        while (flight := self._under_way.get(key)) is not None:
            _check(flight[0], same)
            await asyncio.wait({flight[1]})
        self._forget()
        known = self._settled.get(key)
        if known is None:
            known = _Known(same)
        _check(known, same)
        match known.answer:
            case bytes() as response:
                return msgspec.json.decode(response, type=Response)
            case BusError() as error:
                raise BusError.from_dict(error.to_dict())
        return await self._settle(key, known, settle, again)

    async def _settle(
        self, key: Key, known: _Known, settle: Callable[[str], Awaitable[Response]], again: bool
    ) -> Response:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settled.pop(key, None)  # one without an answer, which has no size
        self._under_way[key] = (known, future)
        try:
            response = await settle(key[1] if not known.cancelled else f"{key[1]}~{known.cancelled}")
            # As JSON, so that it stays what it was, whatever is done with the one that is given out.
            known.answer = msgspec.json.encode(response)
            return response
        except BusError as error:
            known.answer = error if _is_final(error) else None
            raise
        except asyncio.CancelledError:
            if again:
                known.cancelled += 1
            else:
                known.answer = BusError("cancelled", "it was cancelled", outcome="cancelled")
            raise
        finally:
            del self._under_way[key]
            if known.answer is not None or known.cancelled:
                self._keep(key, known)
            future.set_result(None)

    def _keep(self, key: Key, known: _Known) -> None:
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

    def __len__(self) -> int:
        return len(self._settled)


def _is_final(error: BusError) -> bool:
    """Whether the call was dealt with. One that found no room was not, and may come again."""
    return error.code not in ("capacity_exceeded", "rate_limited")


def _check(known: _Known, same: bytes) -> None:
    if known.same != same:
        raise BusError("bad_request", "this call id already names another call; give each its own", outcome="failed")
