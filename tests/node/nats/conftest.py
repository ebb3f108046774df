"""One NATS server for the tests that do not hurt it; each test has a community of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.nats.nats_fixtures import NatsServer, nats_server


@pytest.fixture(scope="package")
def shared() -> Iterator[NatsServer]:
    with nats_server() as server:
        yield server
