"""TLS to a NATS server that asks for the certificate of its clients, or has an authority of its own."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from handrail.core.errors import UsageError


def tls_options(
    certificate: Path | None = None, key: Path | None = None, authority: Path | None = None
) -> dict[str, Any]:
    """What `Link` and `NatsBus` take as `options`; nothing if no file is named. A key may be in the certificate's file.
    An authority that is named is the only one that is believed.

    Raises:
        UsageError: A file cannot be read, or does not hold what it should.
    """
    if certificate is None and key is None and authority is None:
        return {}
    if certificate is None and key is not None:
        raise UsageError(f"the key {str(key)!r} is of no certificate; name the file of that too")
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise _unusable("authority", authority, error) from error
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")  # else OpenSSL asks for one at the terminal
    except (OSError, ssl.SSLError) as error:
        raise _unusable("certificate or its key", key or certificate, error) from error
    return {"tls": context}


def _unusable(what: str, path: Path | None, error: OSError) -> UsageError:
    if isinstance(error, ssl.SSLError):
        why = "they must be PEM without a password, and belong together"
    else:
        why = error.strerror or type(error).__name__
    return UsageError(f"the {what} for NATS cannot be used ({str(path)!r}): {why}")
