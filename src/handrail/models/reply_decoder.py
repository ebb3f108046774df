"""What the decoders of most wires share: the state of a reply, how its end is told, and the service's own calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from handrail.core.errors import ProtocolError
from handrail.core.events import ModelEvent, Notice, ReplyFinished, ServiceCallMade, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import ServiceCall, StopReason, Usage
from handrail.models.call_assembly import CallAssembler
from handrail.models.reply_layout import ReplyLayout
from handrail.models.tool_names import NameMap
from handrail.models.unknown_kinds import UnknownKinds


class ServiceCalls:
    """Pairs the calls that a service made itself with their results. One per reply."""

    def __init__(self) -> None:
        self._open: dict[str, ServiceCall] = {}

    def begin(self, id: str, name: str, arguments: Any) -> Iterable[ServiceCallMade]:
        """Note a call. Where ids are missing, one of the same id that had no result is given out."""
        before = self._open.pop(id, None)
        self._open[id] = ServiceCall(id=id, name=name, arguments=arguments)
        return () if before is None else (ServiceCallMade(call=before),)

    def end(self, id: str, name: str, result: Any, *, failed: bool) -> ServiceCallMade:
        """A call with its result. `name` is for one that began in an earlier reply, which this one continues."""
        begun = self._open.pop(id, None) or ServiceCall(id=id, name=name)
        return ServiceCallMade(call=replace(begun, result=result, failed=failed))

    def unanswered(self) -> Iterator[ServiceCallMade]:
        """Calls that have no result."""
        for call in self._open.values():
            yield ServiceCallMade(call=call)
        self._open.clear()


class ReplyDecoder:
    """A `Decoder` with the state that most wires need. Each wire reads its own events."""

    provider: ClassVar[str]

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        self._calls = CallAssembler(new_id, names)
        self._layout = ReplyLayout(self.provider)
        self._services = ServiceCalls()
        self._unknown = UnknownKinds()
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._stop: str | None = None
        """Why the reply ended, in the service's own term; None while it goes on."""

    @abstractmethod
    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]: ...

    @abstractmethod
    def finish(self) -> Iterator[ModelEvent]: ...

    def _emit_text(self, text: str) -> tuple[ModelEvent, ...]:
        if not text:
            return ()
        self._layout.said(text)
        return (TextDelta(text=text),)

    def _stop_reason(self, stops: Mapping[str, StopReason], what: str) -> StopReason:
        """Why the reply ended.

        Raises:
            ProtocolError: It broke off before the service said so.
        """
        if self._stop is None:
            words = self._unknown.words
            raise ProtocolError(f"the reply broke off before its {what}; nothing of it can be relied on{words}")
        return stops.get(self._stop, "end")

    def _finished(self, stop: StopReason, usage: Usage) -> ReplyFinished:
        """The end of the reply. Services say that it just ended also where it ended for calls."""
        return ReplyFinished(
            stop="tool_calls" if stop == "end" and self._layout.calls else stop,
            model=self._model,
            usage=usage,
            artefacts=self._layout.artefacts,
        )


def call_cut_off(*, limit_reached: bool) -> Notice:
    """Tells of a reply that ended inside a call.

    Raises:
        ProtocolError: It did not reach a limit, so something else is wrong with it.
    """
    if not limit_reached:
        raise ProtocolError("the reply ended inside a call; nothing of it can be relied on")
    return Notice(text="the reply reached its token limit inside a call; the call was dropped")
