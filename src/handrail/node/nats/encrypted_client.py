"""The client of nats-py, but for one thing: where TLS is wanted, nothing is said without it.

nats-py encrypts only what the server says has to be encrypted, and whoever is in between can say that nothing has.
"""

from __future__ import annotations

from nats.aio.client import Client
from nats.errors import Error


class NotEncrypted(Error):
    pass


class EncryptedNatsClient(Client):
    def _connect_command(self) -> bytes:
        """What is said first, with the password: afterwards it would be too late."""
        if self._is_wanted and not (self._server_info.get("tls_required") or self.options["tls_handshake_first"]):
            raise NotEncrypted
        return super()._connect_command()

    @property
    def _is_wanted(self) -> bool:
        """By the address, or by files that only TLS has a use for."""
        scheme = "" if self._current_server is None else self._current_server.uri.scheme
        return scheme == "tls" or (scheme != "wss" and "tls" in self.options)
