"""Blobs by the hash of their bytes, for those who put them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import BusError
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.blobs import BlobService, BlobStore, cid_of
from tests.examples import examples
from tests.node.services.service_calls import ANNA, BEN, ask, refusal

EMPTY = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[CapabilityBus]:
    store = BlobStore(tmp_path / "blobs", most_each=1000, most_bytes=1500)
    async with CapabilityBus() as made:
        made.register_service(BlobService(store))
        yield made
    store.close()


def written(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def put(bus: CapabilityBus, data: bytes, **more: object) -> str:
    cid = (await ask(bus, "blob.put", {"data": written(data), "media_type": "image/png", **more}))["cid"]
    assert isinstance(cid, str)
    return cid


async def test_what_is_put_is_got_back_under_the_hash_of_its_bytes(bus: CapabilityBus) -> None:
    assert await put(bus, b"") == EMPTY
    cid = await put(bus, b"\xff\xfe picture")

    got = await ask(bus, "blob.get", {"cid": cid})
    assert got == {"cid": cid, "media_type": "image/png", "size_bytes": 10, "data": written(b"\xff\xfe picture")}


async def test_case_40_anothers_blob_is_not_found_and_nothing_tells_it_from_one_that_is_not_there(
    bus: CapabilityBus,
) -> None:
    cid = await put(bus, b"private")

    guessed = await refusal(bus, "blob.get", {"cid": cid}, who=BEN)
    absent = await refusal(bus, "blob.get", {"cid": EMPTY}, who=BEN)
    assert guessed.code == absent.code == "not_found"
    assert guessed.message.replace(cid, "") == absent.message.replace(EMPTY, "")


async def test_a_shared_blob_is_there_for_everybody(bus: CapabilityBus) -> None:
    cid = await put(bus, b"for all", shared=True)

    assert (await ask(bus, "blob.get", {"cid": cid}, who=BEN))["data"] == written(b"for all")


async def test_two_who_put_the_same_bytes_each_have_them(bus: CapabilityBus) -> None:
    cid = await put(bus, b"same")
    await ask(bus, "blob.put", {"data": written(b"same"), "media_type": "text/plain"}, who=BEN)

    assert (await ask(bus, "blob.get", {"cid": cid}))["media_type"] == "image/png"
    assert (await ask(bus, "blob.get", {"cid": cid}, who=BEN))["media_type"] == "text/plain"


@pytest.mark.parametrize("data", ["a", "a+b/", "*", "ä"])
async def test_what_is_no_base64url_is_refused(bus: CapabilityBus, data: str) -> None:
    assert (await refusal(bus, "blob.put", {"data": data, "media_type": "image/png"})).code == "bad_request"


async def test_a_blob_and_all_of_them_have_a_bound(bus: CapabilityBus) -> None:
    too_big = {"data": written(b"x" * 1001), "media_type": "image/png"}
    assert (await refusal(bus, "blob.put", too_big)).code == "bad_request"

    await put(bus, b"x" * 1000)
    too_many = {"data": written(b"y" * 501), "media_type": "image/png"}
    assert (await refusal(bus, "blob.put", too_many)).code == "capacity_exceeded"
    await put(bus, b"x" * 1000)  # what is there takes no more room
    await put(bus, b"y" * 500)


async def test_a_file_that_was_changed_is_never_given_out(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    cid = await store.put(b"true", "text/plain", "me")
    (tmp_path / cid[7:9] / cid[7:]).write_bytes(b"fake")

    with pytest.raises(BusError, match="was changed") as refused:
        await store.read(cid, "me")
    assert refused.value.code == "internal_error"
    await store.put(b"true", "text/plain", "me")  # as the error says
    assert await store.read(cid, "me") == ("text/plain", b"true")
    store.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_one_owner_cannot_fill_the_node(tmp_path: Path, shared: bool) -> None:
    store = BlobStore(tmp_path, most_per_owner=1000)
    await store.put(b"x" * 600, "a/b", "anna", shared=shared)

    with pytest.raises(BusError, match="for you") as refused:
        await store.put(b"y" * 401, "a/b", "anna")
    assert refused.value.code == "capacity_exceeded"
    await store.put(b"x" * 600, "a/b", "anna", shared=shared)
    await store.put(b"y" * 401, "a/b", "ben")
    store.close()


async def test_who_deletes_makes_room_and_takes_nothing_from_others(bus: CapabilityBus) -> None:
    body = {"data": written(b"x" * 1000), "media_type": "image/png", "shared": True}
    cid = (await ask(bus, "blob.put", body))["cid"]
    await ask(bus, "blob.put", {**body, "shared": False}, who=BEN)

    assert await ask(bus, "blob.delete", {"cid": cid}) == {"deleted": True}
    assert await ask(bus, "blob.delete", {"cid": cid}) == {"deleted": False}
    assert (await refusal(bus, "blob.get", {"cid": cid})).code == "not_found"
    assert (await ask(bus, "blob.get", {"cid": cid}, who=BEN))["size_bytes"] == 1000
    await ask(bus, "blob.delete", {"cid": cid}, who=BEN)
    await put(bus, b"y" * 1000)


async def test_a_folder_that_cannot_be_written_is_told_without_its_path(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    cid = cid_of(b"true")
    (tmp_path / cid[7:9]).write_bytes(b"in the way")

    with pytest.raises(BusError, match="cannot be written") as refused:
        await store.put(b"true", "a/b", "anna")
    assert str(tmp_path) not in str(refused.value)
    with pytest.raises(BusError, match="no blob"):
        await store.read(cid, "anna")
    store.close()


async def test_blobs_are_there_after_a_restart_and_for_other_processes(tmp_path: Path) -> None:
    first, second = BlobStore(tmp_path), BlobStore(tmp_path)
    cids = await asyncio.gather(*(store.put(bytes([n]), "a/b", "me") for n in range(8) for store in (first, second)))
    first.close()

    assert [await second.read(cid, "me") for cid in cids[::2]] == [("a/b", bytes([n])) for n in range(8)]
    second.close()


@given(cid=st.text(max_size=80))
@settings(max_examples=examples(40), deadline=None)
def test_no_name_leads_out_of_the_folder(tmp_path_factory: pytest.TempPathFactory, cid: str) -> None:
    store = BlobStore(tmp_path_factory.getbasetemp() / "any")
    try:
        with pytest.raises(BusError) as refused:
            asyncio.run(store.read(cid, ANNA.id))
        assert refused.value.code == "not_found"
    finally:
        store.close()
