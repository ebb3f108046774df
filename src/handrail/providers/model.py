"""A model that is a service: a codec, a way to reach it, and a name. What all services share is here, once."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent, Notice, ReplyFinished
from handrail.core.model import ModelRequest
from handrail.core.ports import Clock, SystemClock
from handrail.providers.codec import Codec, WireRequest
from handrail.providers.retry import RetryPolicy
from handrail.providers.transport import Endpoint, Transport
from handrail.providers.watch import ReplyWatch

if TYPE_CHECKING:
    from handrail.providers.profiles import Profile


class CodecModel:
    """A `Model`. A call that failed is tried again, but only while nothing of its reply was given out."""

    def __init__(
        self,
        codec: Codec,
        transport: Transport,
        endpoint: Endpoint,
        model: str,
        *,
        stream: bool = True,
        retry: RetryPolicy = RetryPolicy(),
        profile: Profile | None = None,
        clock: Clock = SystemClock(),
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`profile` prices the tokens; what the codec needs to know of the model, it has itself."""
        self.name = model
        self._codec = codec
        self._transport = transport
        self._endpoint = endpoint
        self._streams = stream
        self._retry = retry
        self._profile = profile
        self._clock = clock
        self._chance = chance

    def __repr__(self) -> str:
        return f"CodecModel({self._codec.provider!r}, {self.name!r}, {self._endpoint!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield notices about the request, then the reply. Closing it closes the connection at once.

        Raises:
            ModelError: The service failed, was cut off, or broke the choice of tools.
        """
        wire = self._codec.encode(request, self.name, stream=self._streams)
        for text in wire.notices:
            yield Notice(text=text)
        attempt, given = 1, False
        while True:
            try:
                async with aclosing(self._attempt(request, wire)) as events:
                    async for event in events:
                        given = given or not isinstance(event, Notice)
                        yield event
                return
            except ModelError as error:
                delay = None if given else self._retry.delay(attempt, error, self._chance())
                if delay is None:
                    raise
                why = str(error)
            attempt += 1
            yield Notice(text=f"{why}; trying again in {delay:.1f} s ({attempt} of {self._retry.attempts})")
            await self._clock.sleep(delay)

    async def aclose(self) -> None:
        """Close the connections of its transport, which other models may share."""
        await self._transport.aclose()

    async def _attempt(self, request: ModelRequest, wire: WireRequest) -> AsyncGenerator[ModelEvent, None]:
        decoder, watch = self._codec.decoder(request), ReplyWatch(request)
        async with aclosing(self._transport.send(wire, self._endpoint)) as wire_events:
            async for data, name in wire_events:
                for event in decoder.feed(data, name):
                    for allowed in watch.see(event):
                        yield self._priced(allowed)
        for event in decoder.finish():
            for allowed in watch.see(event):
                yield self._priced(allowed)
        watch.close()

    def _priced(self, event: ModelEvent) -> ModelEvent:
        if self._profile is None or not isinstance(event, ReplyFinished) or event.usage.cost is not None:
            return event
        return replace(event, usage=replace(event.usage, cost=self._profile.cost(event.usage)))
