"""Which hosts and addresses may be asked. A name is looked up once, and what was checked is what is connected to.

Not a public address: this machine, private networks, the neighbourhood, the services
that tell a cloud machine its secrets, and every way to write such an address inside
another (mapped, translated, tunnelled). Those are refused unless `private` names
their network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from handrail.core.errors import ToolError
from handrail.http import HttpAddress
from handrail.library.io.settings import IoSettings, plain_host

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, as text."""
IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_RESERVED = {
    # network            what it is
    "0.0.0.0/8": "this machine",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a private network",
    "127.0.0.0/8": "this machine",
    "169.254.0.0/16": "the neighbourhood, where cloud machines find their secrets",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "a tunnel to other addresses",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "for tests of networks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "for many receivers at once",
    "240.0.0.0/4": "reserved",
    "::/96": "this machine, or another address written in a new way",
    "::ffff:0:0/96": "another address written in a new way",
    "64:ff9b::/96": "another address, translated",
    "64:ff9b:1::/48": "another address, translated",
    "100::/64": "nowhere",
    "2001::/23": "reserved, or a tunnel to other addresses",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a tunnel to other addresses",
    "2620:4f:8000::/48": "reserved",
    "3fff::/20": "for documentation",
    "5f00::/16": "reserved",
    "fc00::/7": "a private network",
    "fe80::/10": "the neighbourhood",
    "fec0::/10": "a private network",
    "ff00::/8": "for many receivers at once",
}
_NETWORKS = [(ipaddress.ip_network(network), what) for network, what in _RESERVED.items()]
_GLOBAL6 = ipaddress.ip_network("2000::/3")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", re.IGNORECASE)
_UNWRITTEN = re.compile(r"[^\x21-\x7e]|[\\^`{|}\"<>]")


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """A request that may be sent, and the only addresses it may be sent to."""

    address: HttpAddress
    at: tuple[str, ...]


class AddressGatekeeper:
    """Says for every URL, the first and each that it leads to, where it may be asked, or why not."""

    def __init__(self, settings: IoSettings, resolve: Resolve | None = None) -> None:
        self._hosts = settings.hosts
        self._deny = settings.deny_hosts
        self._private = [ipaddress.ip_network(network) for network in settings.private]
        self._resolve = resolve or system_addresses_of_host

    async def check(self, url: str) -> CheckedUrl:
        """Checks a URL against the rules, and resolves its host.

        Raises:
            ToolError: It may not be asked; the words say why.
        """
        address = parse_url(url)
        host = address.host
        self._check_host(host)
        found = await self._looked_up(host, address.port) if _ip(host) is None else [host]
        for text in found:
            self._check_address(text, host)
        return CheckedUrl(address, tuple(dict.fromkeys(found)))

    def _check_host(self, host: str) -> None:
        if any(_fits(host, rule) for rule in self._deny) or not any(_fits(host, rule) for rule in self._hosts):
            allowed = "" if "*" in self._hosts else f"; allowed are {', '.join(self._hosts)}"
            raise ToolError("host_not_allowed", f"{host!r} may not be fetched from{allowed}")

    async def _looked_up(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ToolError("network", f"the host {host!r} cannot be found: {why}") from error
        if not found:
            raise ToolError("network", f"the host {host!r} has no address")
        return found

    def _check_address(self, text: str, host: str) -> None:
        """If one address of a host is not public, none of them is asked: who mixes them wants to be reached inside."""
        ip = _ip(text)
        if ip is None:
            raise ToolError("private_address", f"{host!r} leads to {text!r}, which cannot be checked")
        if any(ip.version == network.version and ip in network for network in self._private):
            return
        if (what := reserved_range(ip)) is not None:
            leads = f"{host!r} is" if _ip(host) is not None else f"{host!r} leads to {ip}, which is"
            raise ToolError(
                "private_address", f"{leads} not a public address ({what}); the owner of this node has not allowed it"
            )


def reserved_range(ip: IP) -> str | None:
    """What an address is that is not public."""
    for network, what in _NETWORKS:
        if ip.version == network.version and ip in network:
            return what
    return "reserved" if ip.version == 6 and ip not in _GLOBAL6 else None


async def system_addresses_of_host(host: str, port: int) -> list[str]:
    """Ask the system."""
    loop = asyncio.get_running_loop()
    found: list[Any] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def parse_url(url: str) -> HttpAddress:
    """The parts of a URL, its host as `plain_host` writes it.

    Raises:
        ToolError: It is none, or one that two programs might read differently.
    """
    if (odd := _UNWRITTEN.search(url)) is not None:
        raise ToolError("bad_url", f"a URL does not contain {odd.group()!r}; percent-encode it")
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ToolError("bad_url", "a URL with a user or a password in it is not fetched")
        if parts.port == 0:
            raise ValueError("there is no port 0")
        address = HttpAddress.of(url)
    except (ValueError, UnicodeError) as error:
        raise ToolError("bad_url", f"{url[:200]!r} cannot be fetched: {error}") from None
    host = plain_host(address.host)
    written = f"[{address.host}]" if ":" in address.host else address.host
    if host is None or parts.netloc.lower().removeprefix(written)[:1] not in ("", ":"):
        raise ToolError("bad_url", f"{address.host!r} is not a host")
    if _ip(host) is None and _NUMBER.fullmatch(host):
        raise ToolError("bad_url", f"{host!r} is an address in an odd spelling; write it as four numbers, as 192.0.2.1")
    return address._replace(host=host)


def _fits(host: str, rule: str) -> bool:
    return rule == "*" or host == rule or (rule.startswith("*.") and (host.endswith(rule[1:]) or host == rule[2:]))


def _ip(text: str) -> IP | None:
    """An address; a zone behind it, as of fe80::1%eth0, does not make it another one."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
