"""The SQLite file of a service: it is closed by whoever closes the service, or when nobody can use it any more."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from handrail.core.errors import UsageError
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.node.tokens.token_store import TokenStore


async def test_a_service_that_nobody_closed_leaves_no_connection_open(tmp_path: Path) -> None:
    """From Python 3.13 on a connection that is collected while it is open warns, and a warning fails the test."""
    for path in (None, tmp_path / "log.sqlite"):
        log = EventLog(path)
        await log.add(EventDraft("note", "ada", "1", {"text": "hello"}))
        del log
        gc.collect()


async def test_a_service_may_be_closed_twice(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.sqlite")

    log.close()
    log.close()


def test_a_store_of_tokens_that_cannot_be_used_leaves_no_connection_open(tmp_path: Path) -> None:
    path = tmp_path / "tokens.sqlite"
    path.write_bytes(b"no database, and long enough that SQLite would read it as one" * 20)

    with pytest.raises(UsageError, match="cannot be used"):
        TokenStore(path)
    gc.collect()
