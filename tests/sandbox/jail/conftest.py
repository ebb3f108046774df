from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from handrail.sandbox.jail import JailLimits
from tests.sandbox.attacks.os_attacks import CANARY, Facts

LIMITS = JailLimits(
    memory_bytes=256 * 2**20, cpu_seconds=20, disk_bytes=16 * 2**20, file_bytes=8 * 2**20, open_files=64
)


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Facts]:
    """A host with something to lose."""
    monkeypatch.setenv(CANARY, "sk-canary")
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-canary")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0handrail-{os.getpid()}-{tmp_path.name}")
        abstract.listen()
        yield Facts(
            file=str(secret),
            folder=str(Path(__file__).parents[3]),
            pid=os.getpid(),
            port=tcp.getsockname()[1],
            abstract=abstract.getsockname()[1:].decode(),
            memory_bytes=LIMITS.memory_bytes,
            disk_bytes=LIMITS.disk_bytes,
            open_files=LIMITS.open_files,
        )
