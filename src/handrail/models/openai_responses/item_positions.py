"""Which item of a response an event is about, whatever the server makes of indexes and ids.

An item is known by its kind and index. Some servers leave the index out, some give it
to several items, and some draw another id for every event.
"""

from __future__ import annotations


class ItemPositions:
    """Numbers the items of one reply, in the order in which they were first heard of."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | str], int] = {}
        self._last: dict[str, int] = {}
        """The latest item of each kind."""
        self._owners: list[str | None] = []
        """The call id of the item at each place."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._last)

    def owns(self, place: int, call_id: str) -> bool:
        return self._owners[place] == call_id

    def has_call(self, call_id: str | None) -> bool:
        return call_id in self._owners

    def of_item(self, kind: str, index: int | None, item_id: str | None, call_id: str | None) -> int:
        """The place of an item that begins or ends. Another call at a used index is another item."""
        keys = (call_id, item_id) if index is None else (index,)
        places = (self._known.get((kind, key)) for key in keys if key is not None)
        place = next((each for each in places if each is not None), None)
        if place is None or (call_id and self._owners[place] not in (None, call_id)):
            place = self.begin(kind, call_id)
        self._owners[place] = call_id or self._owners[place]
        for key in (index, item_id, call_id):
            if key is not None:
                self._known[kind, key] = place
        return place

    def of_piece(self, kind: str, index: int | None, item_id: str | None) -> int:
        """The place of the item that a piece belongs to; without an index or an id that is known, the latest."""
        key = item_id if index is None else index
        place = None if key is None else self._known.get((kind, key))
        if place is None and index is None:
            place = self._last.get(kind)
        if place is None:
            place = self.begin(kind, None)
        if key is not None:
            self._known[kind, key] = place
        return place

    def begin(self, kind: str, call_id: str | None) -> int:
        self._owners.append(call_id)
        self._last[kind] = place = len(self._owners) - 1
        return place
