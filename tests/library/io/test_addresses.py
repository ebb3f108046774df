"""Which addresses are public, and which URLs can be trusted to mean what they seem to."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ToolError
from handrail.library.io import IoSettings
from handrail.library.io.addresses import AddressGatekeeper, parse_url, reserved_range

PUBLIC = "93.184.216.34"


def keeper(*found: str, hosts: tuple[str, ...] = ("*",), **settings: Any) -> AddressGatekeeper:
    async def resolve(host: str, port: int) -> list[str]:
        return list(found)

    return AddressGatekeeper(IoSettings(hosts=hosts, **settings), resolve)


async def refused(gate: AddressGatekeeper, url: str) -> str:
    with pytest.raises(ToolError) as caught:
        await gate.check(url)
    return caught.value.code


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_python_knows_not_to_be_public_is_refused(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not ip.is_global or ip.is_multicast or ip.is_reserved or ip.is_link_local:
        assert reserved_range(ip) is not None


@given(st.ip_addresses(v=4))
def test_no_ipv4_address_is_let_in_inside_another(ip: ipaddress.IPv4Address) -> None:
    number = int(ip)
    for written in (
        ipaddress.IPv6Address(number),
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
        ipaddress.IPv6Address(0x2002 << 112 | number << 80),
        ipaddress.IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF),
    ):
        assert reserved_range(written) is not None


@pytest.mark.parametrize("ip", [PUBLIC, "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:82a::200e"])
async def test_public_addresses_are_let_through(ip: str) -> None:
    checked = await keeper(ip).check("https://example.org/x?y=1")

    assert (checked.at, checked.address.target) == ((ip,), "/x?y=1")


INSIDE = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:0:1::1",
    "fd00:ec2::254",
    "fe80::1%lo",
    "fc00::1",
    "ff02::1",
]


@pytest.mark.parametrize("ip", INSIDE)
async def test_a_name_that_leads_inside_is_refused_also_beside_a_public_address(ip: str) -> None:
    assert await refused(keeper(ip), "http://example.org/") == "private_address"
    assert await refused(keeper(PUBLIC, ip), "http://example.org/") == "private_address"


@pytest.mark.parametrize("ip", [ip for ip in INSIDE if "%" not in ip])
async def test_an_address_inside_is_refused_without_asking_anybody(ip: str) -> None:
    url = f"http://[{ip}]/" if ":" in ip else f"http://{ip}/"

    assert await refused(keeper(PUBLIC), url) == "private_address"


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "0", "1.2.3.4.5"),
        *("127.0.0.1.", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "LOCALHOST", "１２７.0.0.1", "[fe80::1%25lo]"),
    ],
)
async def test_odd_spellings_of_this_machine_are_refused(host: str) -> None:
    async def system(host: str, port: int) -> list[str]:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]

    gate = AddressGatekeeper(IoSettings(hosts=("*",)), system)

    assert await refused(gate, f"http://{host}/") in ("bad_url", "private_address", "network")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "example.org",
        "http://",
        "http:///x",
        "http://user@example.org/",
        "http://user:pw@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org:x/",
        "http://exa mple.org/",
        "http://example.org/\r\nhost: evil",
        "http://example.org/\t",
        "http://[::1",
        "http://[2606:4700::1111]x/",
        "http://[v1.x]/",
        "http://example.org,evil.net/",
        "http://example.org;evil.net/",
        "http://*/",
        "http://example%2eorg/",
        "http://./",
        "javascript:alert(1)",
        "",
    ],
)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_url(url)

    assert caught.value.code == "bad_url"


@given(st.text())
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}/", f"http://example.org/{text}"):
        try:
            assert parse_url(url).host
        except ToolError as error:
            assert error.code == "bad_url"


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("example.org", True),
        ("EXAMPLE.org.", True),
        ("www.example.org", False),
        ("a.docs.example.com", True),
        ("docs.example.com", True),
        ("bad.docs.example.com", False),
        ("xdocs.example.com", False),
        ("example.org.evil.net", False),
    ],
)
async def test_only_the_hosts_that_are_named_are_asked(host: str, fits: bool) -> None:
    gate = keeper(PUBLIC, hosts=("example.org", "*.docs.example.com"), deny_hosts=("bad.docs.example.com",))
    if fits:
        assert (await gate.check(f"http://{host}/")).at == (PUBLIC,)
    else:
        assert await refused(gate, f"http://{host}/") == "host_not_allowed"


@pytest.mark.parametrize("host", ["2606:4700::1111", "2606:4700:0:0:0:0:0:1111", "2606:4700::0:1111"])
@pytest.mark.parametrize("rule", ["2606:4700::1111", "[2606:4700:0::1111]"])
async def test_an_address_that_is_denied_is_denied_in_every_spelling(host: str, rule: str) -> None:
    gate = keeper(PUBLIC, deny_hosts=(rule,))

    assert await refused(gate, f"http://[{host}]/") == "host_not_allowed"


async def test_a_network_that_is_named_may_be_reached_and_no_other() -> None:
    gate = keeper("10.1.2.3", private=("10.1.0.0/16",))

    assert (await gate.check("http://inside/")).at == ("10.1.2.3",)
    assert await refused(gate, "http://10.2.0.1/") == "private_address"
    assert await refused(gate, "http://169.254.169.254/latest/meta-data/") == "private_address"


async def test_a_host_that_nobody_knows_is_said_to_be_unknown() -> None:
    async def nobody(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert await refused(AddressGatekeeper(IoSettings(hosts=("*",)), nobody), "http://nowhere.test/") == "network"
    assert await refused(keeper(), "http://nowhere.test/") == "network"
    assert await refused(keeper("not an address"), "http://nowhere.test/") == "private_address"
