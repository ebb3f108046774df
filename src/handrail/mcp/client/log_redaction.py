"""What the libraries below write into logs, without what must not stand there: keys in addresses, ids of sessions."""

from __future__ import annotations

import logging
from typing import Any

import httpx2

_LIBRARIES = ("httpx2", "mcp.client.streamable_http")


def redact_library_logs() -> None:
    for name in _LIBRARIES:
        logging.getLogger(name).addFilter(_without_secrets)  # the same one is added once


def _without_secrets(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_bare, record.args))
    return not str(record.msg).startswith("Received session ID")


def _bare(value: Any) -> Any:
    """An address without a name, a password and a query."""
    return value.copy_with(userinfo=b"", query=None) if isinstance(value, httpx2.URL) else value
