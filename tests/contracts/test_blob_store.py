"""What every store of blobs does, whether in a folder or in the shared state of several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from handrail.core.errors import BusError
from handrail.node.services.blobs import MIB, BlobStore
from handrail.state.database import StateDatabase
from tests.contracts.state_places import place as place

Blobs = Callable[..., BlobStore]


@pytest.fixture
def opened(place: Path | StateDatabase) -> Iterator[Blobs]:
    """Opens the blobs as a process, or a replica, does."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(BlobStore(place, **options)))


async def test_bytes_put_by_one_are_read_by_another_and_by_nobody_else(opened: Blobs) -> None:
    data = bytes(range(256)) * 8_192
    cid = await opened().put(data, "image/png", "ada")

    assert await opened().read(cid, "ada") == ("image/png", data)
    with pytest.raises(BusError, match="not_found"):
        await opened().read(cid, "bob")
    await opened().put(data, "image/jpeg", "ada", shared=True)
    assert await opened().read(cid, "bob") == ("image/jpeg", data)


async def test_what_one_owner_deletes_stays_for_another(opened: Blobs) -> None:
    cid = await opened().put(b"both", "text/plain", "ada")
    assert cid == await opened().put(b"both", "text/plain", "bob")

    assert await opened().delete(cid, "ada")
    assert not await opened().delete(cid, "ada")
    assert await opened().read(cid, "bob") == ("text/plain", b"both")
    assert await opened().delete(cid, "bob")
    with pytest.raises(BusError, match="not_found"):
        await opened().read(cid, "bob")
    assert await opened().put(b"both", "text/plain", "ada") == cid


async def test_the_room_of_an_owner_and_of_all_is_kept_whoever_puts_at_once(opened: Blobs) -> None:
    stores = [opened(most_per_owner=3 * MIB, most_bytes=5 * MIB) for _ in range(2)]

    async def put(number: int, owner: str) -> bool:
        try:
            await stores[number % 2].put(bytes([number]) * MIB, "text/plain", owner)
        except BusError as error:
            assert error.code == "capacity_exceeded"
            return False
        return True

    assert sum(await asyncio.gather(*(put(number, "ada") for number in range(6)))) == 3
    assert sum(await asyncio.gather(*(put(number + 10, "bob") for number in range(6)))) == 2
