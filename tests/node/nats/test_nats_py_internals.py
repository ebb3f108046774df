"""What makes messages quick is still in nats-py, and nothing is lost by it."""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.client import Client

from handrail.node.nats.link import NatsLink
from handrail.node.nats.nats_py_internals import new_client, publish_directly, subscribe_directly
from tests.node.nats.nats_fixtures import NatsServer


async def test_a_message_is_heard_as_it_is_read_and_written_as_it_is_sent(shared: NatsServer) -> None:
    async with NatsLink(shared.url) as link:
        client = await link.open()
        got = asyncio.get_running_loop().create_future()
        subscription = await subscribe_directly(client, "quick.one", got.set_result)
        await link.flush()

        assert publish_directly(client, "quick.one", b"hello", "back"), (
            "nats-py writes in another way now: look at nats_py_internals.py"
        )
        async with asyncio.timeout(10):
            message = await got
        assert (message.subject, message.data, message.reply) == ("quick.one", b"hello", "back")
        assert type(subscription._pending_queue).__name__ == "_DirectQueue"
        assert subscription.pending_msgs == 0


async def test_a_listener_that_fails_ends_neither_the_connection_nor_the_others(
    shared: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(message: object) -> None:
        raise ValueError("no")

    async with NatsLink(shared.url) as link:
        client = await link.open()
        got = asyncio.get_running_loop().create_future()
        await subscribe_directly(client, "quick.two", fail)
        await subscribe_directly(client, "quick.three", got.set_result)
        await link.flush()
        await link.send_bytes("quick.two", b"x")
        await link.send_bytes("quick.three", b"y")
        async with asyncio.timeout(10):
            assert (await got).data == b"y"
    assert "could not be taken" in caplog.text


async def test_the_library_never_takes_what_was_heard_for_what_still_waits(shared: NatsServer) -> None:
    heard = []
    async with NatsLink(shared.url) as link:
        client = await link.open()
        await subscribe_directly(client, "quick.many", lambda message: heard.append(len(message.data)))
        await link.flush()
        for _ in range(15):  # in all more than nats-py lets wait, before it drops what comes
            for _ in range(10):
                await link.send_bytes("quick.many", bytes(1_000_000))
            await link.flush()
    assert heard == [1_000_000] * 150


@pytest.mark.parametrize("subject", ["", "two words", "a\r\nPUB b 0", "a\tb", "a\u2028b"])
async def test_what_is_no_subject_is_left_to_the_library(shared: NatsServer, subject: str) -> None:
    async with NatsLink(shared.url) as link:
        client = await link.open()
        assert not publish_directly(client, subject, b"x")
        assert not publish_directly(client, "fine", b"x", subject or "two words")


async def test_what_waits_to_be_written_comes_first(shared: NatsServer) -> None:
    heard: list[bytes] = []
    async with NatsLink(shared.url) as link:
        client = await link.open()
        await subscribe_directly(client, "quick.order", lambda message: heard.append(message.data))
        await link.flush()
        await client.publish("quick.order", b"1")
        assert not publish_directly(client, "quick.order", b"2")
        await link.send_bytes("quick.order", b"2")
        await link.flush()
        await link.send_bytes("quick.order", b"3")
        await link.flush()
    assert heard == [b"1", b"2", b"3"]


def test_another_library_writes_in_its_usual_way() -> None:
    assert not publish_directly(object(), "quick.one", b"x")


def test_the_client_still_says_its_first_word_where_it_is_checked_that_it_is_encrypted() -> None:
    assert "_connect_command" in vars(Client), "nothing would keep a password from being sent in clear"
    assert new_client()._connect_command.__name__ == "checked"
