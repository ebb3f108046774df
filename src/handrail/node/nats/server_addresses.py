"""The addresses of NATS servers, and errors of reaching them that tell no secret."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from handrail.core.errors import BusError, UsageError
from handrail.node.nats.nats_py_internals import NOT_ENCRYPTED

_SCHEMES = ("nats", "tls", "ws", "wss")
_REFUSED = "it does not let us in"
_ASKED = "it asks for a certificate of ours"
_ASKING = ("certificate required", "certificate_required", "bad certificate", "unknown ca")
"""What a server says, by TLS, of a client whose certificate is missing or not good."""


def split_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a text that separates them by commas. A password may have a comma: then it is one address."""
    parts = tuple(part.strip() for part in text.split(","))
    return parts if all(map(_is_usable, parts)) else (text,)


def checked_addresses(servers: str | Sequence[str]) -> list[str]:
    """The addresses of servers.

    Raises:
        UsageError: One of them is none. It is not shown: it may hold a password.
    """
    addresses = [servers] if isinstance(servers, str) else list(servers)
    if not addresses or not all(map(_is_usable, addresses)):
        raise UsageError("the address of the NATS server cannot be read; write nats://HOST:4222, or tls://HOST:4222")
    return addresses


def _is_usable(address: str) -> bool:
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def trouble_kind(error: Exception) -> str:
    """What went wrong, by its kind: the text of some errors has the address of the server, password included."""
    said = str(error).lower()
    if any(each in said for each in _ASKING):
        return _ASKED
    if "authorization" in said or "authentication" in said:
        return _REFUSED
    return NOT_ENCRYPTED if str(error) == NOT_ENCRYPTED else type(error).__name__


def unreachable_error(troubles: set[str]) -> BusError:
    if _REFUSED in troubles:
        return BusError("partition", "the NATS server does not let us in; check the user and password, or the key")
    if _ASKED in troubles:
        why = "the NATS server asks for a certificate, and was shown none that it takes"
        return BusError("partition", f"{why}; name one that it takes by nats_cert and nats_key under [node]")
    if NOT_ENCRYPTED in troubles:
        why = "the NATS server does not encrypt, and tls:// in its address, or a file for TLS, says that it has to"
        return BusError("partition", f"{why}; nothing was sent to it: give the server its certificate")
    if any(each.startswith("SSLCert") for each in troubles):
        why = "the certificate of the NATS server is signed by nobody that is known here"
        return BusError("partition", f"{why}; name its authority's file by nats_ca under [node], or in SSL_CERT_FILE")
    return BusError("partition", f"no NATS server can be reached: {', '.join(sorted(troubles))}")
