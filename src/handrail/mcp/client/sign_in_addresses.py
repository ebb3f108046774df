"""Where a server may send us when we sign in.

What a server says about its sign-in names addresses, and we fetch them. One in the outside
world must not reach into this machine or the network around it that way, nor have
secrets sent in the clear. One that is inside may name others that are. A name is looked up once:
the connection goes to the address that was checked, so a name that changes its address in between
(DNS rebinding) leads nowhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

from mcp.client.auth import OAuthFlowError

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""The addresses of a host, as text."""

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


class SignInAddresses:
    """Checks the addresses that one server names."""

    def __init__(self, server: str, resolve: Resolve | None = None) -> None:
        self._server = server
        """Its host."""
        self._resolve = resolve or resolve_host

    async def check(self, scheme: str, host: str, *, secret: bool) -> str | None:
        """The address to connect to; None if the host is to be looked up by whoever connects: it is the server's own,
        an address already, or cannot be looked up here.

        May we ask there, and with something `secret`? Of the server itself its user has decided what is not.

        Raises:
            OAuthFlowError: It would be asked in the clear, or it is inside and the server is not.
        """
        own = host == self._server
        if scheme != "https" and not on_this_machine(host) and (secret or not own):
            raise OAuthFlowError(f"its authorization server would be spoken to without encryption, at {host}")
        if own or on_this_machine(host) or _ip(host) is not None:
            found: list[str] = []
        else:
            found = await self._addresses(host)
        if not own and _are_inside(host, found) and not await self._is_inside(self._server):
            raise OAuthFlowError(f"it sends us to {host}, on this machine or in a private network, and is in neither")
        return found[0] if found else None

    async def _is_inside(self, host: str) -> bool:
        return _are_inside(host, [] if on_this_machine(host) or _ip(host) else await self._addresses(host))

    async def _addresses(self, host: str) -> list[str]:
        try:
            return await self._resolve(host)
        except (OSError, UnicodeError):
            return []  # it cannot be reached, or only through a proxy, whose network is not ours


def _are_inside(host: str, found: list[str]) -> bool:
    if on_this_machine(host):
        return True
    if (literal := _ip(host)) is not None:
        return not is_public(literal)
    return any((ip := _ip(each)) is None or not is_public(ip) for each in found)


def on_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    ip = _ip(host)
    return ip is not None and _meant(ip).is_loopback


def is_public(ip: IP) -> bool:
    """Whether it is everybody's, and no other way to write one that is not."""
    meant = _meant(ip)
    return meant.is_global and not meant.is_multicast


def _meant(ip: IP) -> IP:
    """The address inside of one that is mapped, translated or tunnelled."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _TRANSLATED:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)


def _ip(host: str) -> IP | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


async def resolve_host(host: str) -> list[str]:
    """The addresses of a host, by the resolver of the system."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
