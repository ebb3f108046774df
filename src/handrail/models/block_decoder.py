"""Replies that come as numbered blocks, of which some are calls: Anthropic's and Bedrock's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from handrail.core.errors import ProtocolError
from handrail.core.events import ModelEvent, Notice
from handrail.core.ids import NewId
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import NameMap

B = TypeVar("B")


class BlockDecoder(ReplyDecoder, Generic[B]):
    """Knows which blocks are open, and holds back calls that may have been cut.

    A call whose arguments did not come in pieces is whole where it began, or lacks them all. Only what follows tells
    whether that is what the model meant. If another block begins, it is; if the reply ends at its token limit, nobody
    knows what was still to be written.
    """

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._open: dict[int, B] = {}
        self._held: list[tuple[int, str]] = []
        """The index and the name of each call that is held back."""

    def _open_block(self, index: int, block: B) -> Iterator[ModelEvent]:
        if index in self._open:
            raise ProtocolError(f"block {index} begins twice")
        yield from self._release_held(cut=False)
        self._open[index] = block

    def _close_call(self, index: int, name: object, *, in_pieces: bool, whole: Any) -> Iterator[ModelEvent]:
        """The block of a call has ended; `whole` is what its beginning had as arguments."""
        if in_pieces:
            yield from self._calls.complete(index)
            return
        self._held.append((index, str(name)))
        if whole:
            yield from self._calls.delta(index=index, arguments=whole)

    def _release_held(self, *, cut: bool) -> Iterator[ModelEvent]:
        """Give out the calls that are held back, or say that they are dropped."""
        for index, name in self._held:
            if cut:
                yield Notice(text=f"the reply reached its token limit inside a call to {name!r}; the call was dropped")
            else:
                yield from self._calls.complete(index)
        self._held.clear()


def object_text(written: Any) -> str:
    """Arguments that a server or gateway writes in one piece and not as text."""
    return msgspec.json.encode(written).decode()


def service_input(text: str, whose: str) -> dict[str, Any]:
    """The arguments of a call that the service makes itself.

    Raises:
        ProtocolError: They are not a JSON object.
    """
    try:
        return parse_object(text)
    except JSONTextError as error:
        raise ProtocolError(f"the input of {whose} is not JSON: {error}") from error
