"""A model that is asked over a bus: whoever serves `llm.chat` there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from handrail.core.errors import BusError
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import CallTerms
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.chat.frames import ChatFrameReader, model_error
from handrail.node.chat.request import input_of
from handrail.node.chat.schema import CHAT, V2

Watch = Callable[[StreamFrame], Awaitable[None]]


class BusModel:
    """A `Model`. Each reply is one call of `llm.chat@2.0`, made for the same caller."""

    def __init__(
        self,
        bus: Bus,
        params: Mapping[str, Any] | None = None,
        *,
        terms: CallTerms = CallTerms(),
        watch: Watch | None = None,
    ) -> None:
        self._bus = bus
        self._params = dict(params or {})
        self._terms = terms
        self._watch = watch
        """Shown every frame as it arrives."""

    @property
    def name(self) -> str:
        return str(self._params.get("model", CHAT))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply. Closing it cancels the call.

        Raises:
            ModelError: There was none. The error of the bus is its cause.
        """
        hearing = ChatFrameReader()
        try:
            body = {"params": self._params, "input": input_of(request)}
            async with self._bus.stream(CHAT, V2, body, terms=self._terms) as frames:
                async for frame in frames:
                    if self._watch is not None:
                        await self._watch(frame)
                    for event in hearing.events(frame):
                        yield event
        except BusError as error:
            raise model_error(error) from error
