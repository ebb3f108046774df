"""A NATS server that asks for the certificates of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from handrail.core.errors import BusError, UsageError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.nats.tls import tls_options
from tests.node.nats.certificates import Authority
from tests.node.nats.nats_fixtures import QUICK, NatsServer, WelcomingAdmission, nats_server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[NatsServer]:
    certificate, key = authority.pair("server")
    files = {"--tlscert": certificate, "--tlskey": key, "--tlscacert": authority.file}
    with nats_server("--tlsverify", *(str(each) for pair in files.items() for each in pair)) as server:
        yield server


async def echo(request: Any) -> dict[str, Any]:
    return {"output": request.input}


async def test_who_shows_a_certificate_of_its_authority_serves_and_calls_and_who_shows_none_is_told_so(
    authority: Authority, server: NatsServer
) -> None:
    url = server.url.replace("nats://", "tls://")
    options = tls_options(*authority.pair("node"), authority.file)
    async with (
        asyncio.timeout(30),
        CapabilityBus(admission=WelcomingAdmission()) as bus,
        NatsLink(url, pace=QUICK, options=options) as link,
        NatsDoor(bus, link, community="home") as door,
        NatsBus(url, community="home", pace=QUICK, options=options) as me,
    ):
        bus.register(CapabilityDescriptor(name="text.echo"), echo)
        await door.refresh()
        said = await me.call("text.echo", (1, 0), {"input": {"text": "hello"}})
        soon = replace(QUICK, connect=2.0)
        for shown, what in ((tls_options(authority=authority.file), "nats_cert and nats_key"), ({}, "nats_ca")):
            with pytest.raises(BusError, match=what) as refused:
                await NatsLink(url, pace=soon, options=shown).open()
            assert refused.value.code == "partition"

    assert said["output"] == {"text": "hello"}


async def test_who_wants_tls_tells_nothing_to_a_server_that_does_not_encrypt(authority: Authority) -> None:
    told: list[bytes] = []

    async def in_between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"auth_required":true,"max_payload":1048576,"headers":true}\r\n')
        told.append(await reader.read())
        writer.close()

    async with asyncio.timeout(30), await asyncio.start_server(in_between, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        where, soon = f"me:swordfish@{host}:{port}", replace(QUICK, connect=2.0)
        by_address = NatsLink(f"tls://{where}", pace=soon)
        by_file = NatsLink(f"nats://{where}", pace=soon, options=tls_options(authority=authority.file))
        refused = await asyncio.gather(by_address.open(), by_file.open(), return_exceptions=True)

    assert all(isinstance(each, BusError) and "does not encrypt" in str(each) for each in refused), refused
    assert b"".join(told) == b""


def test_an_authority_that_is_named_is_believed_alone(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "machine").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path / "machine").file))

    assert len(tls_options(authority=authority.file)["tls"].get_ca_certs()) == 1


def test_files_that_cannot_be_used_are_refused_in_words(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.pair("node")
    _, other = authority.pair("other")
    _, locked = authority.pair("locked", b"swordfish")
    assert tls_options() == {}
    with pytest.raises(UsageError, match="of no certificate"):
        tls_options(key=key)
    with pytest.raises(UsageError, match=r"gone\.pem.*No such file"):
        tls_options(certificate, key, tmp_path / "gone.pem")
    for wrong in (other, locked):
        with pytest.raises(UsageError, match="belong together"):
            tls_options(certificate, wrong)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    assert list(tls_options(both)) == ["tls"]
