"""A model that is a service: a codec, a way to reach it, and a name. What all services share is here, once."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING

from msgspec.structs import replace

from handrail.core.errors import ModelError, ProtocolError, RateLimited
from handrail.core.events import AttemptFailed, CallDelta, ModelEvent, Notice, ReplyFinished
from handrail.core.model_request import ModelRequest, ModelScratch
from handrail.core.ports import Clock, SystemClock
from handrail.models.codec import (
    Codec,
    CompletingCodec,
    CountingCodec,
    Decoder,
    EndAwareDecoder,
    PieceDecoder,
    SearchingCodec,
    TextCallCodec,
)
from handrail.models.rate_limit import RateLimitSlot, ServiceRateLimit
from handrail.models.reply_checks import ReplyChecker
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint, HttpTransport, Transport
from handrail.models.wire_events import END, WireEvent

if TYPE_CHECKING:
    from handrail.models.profiles import Profile

_TOLD = 1.0
"""Seconds of waiting that nobody needs to be told of."""


class CodecModel:
    """A `Model`. A failed request is retried, but only while none of its reply was emitted."""

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
        pace: ServiceRateLimit | None = None,
        provider: str | None = None,
        asks_format: bool = False,
    ) -> None:
        """`profile` prices the tokens; what the codec needs to know of the model, it has itself. `provider` is whose
        service it is, where others speak the same wire.

        Models of one service share its `pace`; without one, all requests of this model do. With `asks_format`, the
        server is asked once for the text format in which the model writes calls, before tools are first prompted.
        """
        self.name = model
        self.provider: str = provider or codec.provider
        self._codec = codec
        self._transport = transport
        self._endpoint = endpoint
        self._streams = stream
        self._retry = retry
        self._profile = profile
        known = profile or getattr(codec, "profile", None)
        self.takes_tools: bool = known is None or known.tools != "none"
        self._holds_schema = known is not None and known.response_format == "json_schema"
        self._schema_beside_tools = known is not None and known.schema_beside_tools
        self._clock = clock
        self._chance = chance
        self._pace = pace or ServiceRateLimit(clock=clock)
        self._asks_format = asks_format
        self.scratch: ModelScratch = ModelScratch()
        """What was made of conversations, for whoever takes one of them up."""

    def __repr__(self) -> str:
        return f"CodecModel({self._codec.provider!r}, {self.name!r}, {self._endpoint!r})"

    def asks_as(self, other: CodecModel) -> bool:
        """Whether another one asks the same service for the same model, with the same key and over plain HTTP."""
        plain = isinstance(self._transport, HttpTransport) and isinstance(other._transport, HttpTransport)
        mine, theirs = ((each.name, each._endpoint, each._codec, each._streams) for each in (self, other))
        return plain and mine == theirs

    @property
    def searches_tools(self) -> bool:
        return isinstance(self._codec, SearchingCodec) and self._codec.searches_tools(self.name)

    def holds_to_schema(self, *, tools: bool) -> bool:
        """A reply in which calls are text cannot be both a call and JSON by a schema."""
        by_text = isinstance(self._codec, TextCallCodec) and self._codec.calls_are_text
        return self._holds_schema and (not tools or (self._schema_beside_tools and not by_text))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield notices about the request, then the reply. Closing it closes the connection at once.

        Raises:
            ModelError: The service failed, was cut off, or broke the choice of tools.
        """
        if self._asks_format and request.tools:
            yield await self._learn_format()
        wire = self._codec.encode(request, self.name, stream=self._streams)
        for text in wire.notices:
            yield Notice(text=text)
        attempt = 1
        while True:
            if not self._pace.is_free:
                async with aclosing(self._in_line(told=attempt > 1)) as notices:
                    async for notice in notices:
                        yield notice
            watch = ReplyChecker(request, takes_tools=self.takes_tools)
            decoder = self._codec.decoder(request)
            heard = IncomingReply(decoder, watch, self._profile)
            if self._streams and (piece_of := getattr(decoder, "piece_of", None)) is not None:
                wire = replace(wire, piece_of=piece_of)
            try:
                async with aclosing(self._transport.send(wire, self._endpoint)) as wire_events:
                    async for said in wire_events:
                        for event in heard.take(said):
                            yield event
                for event in heard.end():
                    yield event
                return
            except ModelError as error:
                error.model = self.name
                delay = None if heard.anything else self._retry.delay(attempt, error, self._chance())
                for_all = self._holds(error, delay)
                if delay is None:
                    raise
                failed = AttemptFailed.of(error, self.name, delay)
            attempt += 1
            yield failed
            yield Notice(text=f"{failed.text}; trying again in {delay:.1f} s ({attempt} of {self._retry.attempts})")
            if not for_all:
                await self._clock.sleep(delay)

    @property
    def text_model(self) -> CodecModel | None:
        """Goes on with the text of one user message, at the same service; None where the service cannot."""
        codec = self._codec.text_codec(self.name) if isinstance(self._codec, CompletingCodec) else None
        if codec is None:
            return None
        other = copy(self)
        other._codec, other._asks_format = codec, False
        return other

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The tokens of a request as its service counts them; None where it does not. It is asked once.

        Raises:
            ModelError: The service failed, or refused the request.
        """
        if not isinstance(self._codec, CountingCodec):
            return None
        wire = self._codec.encode_count(request, self.name)
        async with aclosing(self._transport.send(wire, self._endpoint)) as events:
            async for said in events:
                return self._codec.read_count(said.data)
        raise ProtocolError("the service was asked to count tokens and said nothing")

    async def _learn_format(self) -> Notice:
        from handrail.models.prompted.template_lookup import codec_for_template

        learned = codec_for_template(self._codec, self._transport, self._endpoint, self.name, self.provider)
        self._codec, words = await learned
        self._asks_format = False
        return Notice(text=words)

    async def aclose(self) -> None:
        """Close the connections of its transport, which other models may share."""
        await self._transport.aclose()

    def _holds(self, error: ModelError, delay: float | None) -> bool:
        """True if the failure concerns every user of the key (429), so that all of them wait."""
        pause = delay if delay is not None else error.retry_after
        if pause is None or not (isinstance(error, RateLimited) or error.retry_after is not None):
            return False
        if pause > self._retry.longest_wait + self._retry.first_delay:
            return False  # nobody else is made to wait so long
        self._pace.hold(pause)
        return True

    async def _in_line(self, *, told: bool) -> AsyncGenerator[Notice, None]:
        """Wait until a request may go out. Who was not told why is told now."""
        place = RateLimitSlot()
        try:
            while (wait := self._pace.wait(place)) > 0:
                if wait > _TOLD and not told:
                    told = True
                    yield Notice(text=f"waiting {wait:.1f} s before asking {self.name!r}: it takes no more at once")
                await self._clock.sleep(wait)
        except BaseException:
            self._pace.leave(place)
            raise


class IncomingReply:
    """One reply as it comes in: decoded, held to its request, priced."""

    __slots__ = ("_decoder", "_profile", "_watch", "anything")

    def __init__(self, decoder: Decoder, watch: ReplyChecker, profile: Profile | None) -> None:
        self._decoder = decoder
        self._watch = watch
        self._profile = profile
        self.anything = False
        """True once an event was given out; from then on the call is not retried."""

    def take(self, said: WireEvent) -> Iterator[ModelEvent]:
        if said is END:
            if isinstance(self._decoder, EndAwareDecoder):
                self._decoder.done()
            return iter(())
        if said.texts:
            assert isinstance(self._decoder, PieceDecoder)
            return self._given(self._decoder.more(said.texts))
        return self._given(self._decoder.feed(said.data, said.event))

    def end(self) -> Iterator[ModelEvent]:
        yield from self._given(self._decoder.finish())
        self._watch.close()

    def _given(self, events: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
        for event in events:
            if type(event) is CallDelta and self._watch.is_open:  # there are thousands of them
                self.anything = True
                yield event
                continue
            for allowed in self._watch.see(event):
                if isinstance(allowed, ReplyFinished):
                    allowed = self._priced(allowed)
                if not self.anything:
                    self.anything = not isinstance(allowed, Notice)
                yield allowed

    def _priced(self, end: ReplyFinished) -> ReplyFinished:
        if self._profile is None or end.usage.cost is not None:
            return end
        return replace(end, usage=replace(end.usage, cost=self._profile.cost(end.usage)))
