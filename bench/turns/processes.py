"""The processes of a run: the mock service on one core, contestants on another."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "bench"
PATIENCE = 300.0
"""Seconds after which a contestant that says nothing is taken for stuck."""
GRACE = 10.0
"""Seconds that one has to end."""

_QUIET = {
    "PYTHONPATH": str(ROOT),
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
    "OPENAI_API_KEY": "sk-bench",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "DO_NOT_TRACK": "1",
}
"""What peers send home or trace is off."""


class Lost(Exception):
    """A contestant that ended, or said nothing, before it had done its work."""


def cores() -> tuple[int | None, int | None]:
    """One core for the service and another for the contestants, if there are two."""
    free = sorted(os.sched_getaffinity(0))
    return (free[0], free[-1]) if len(free) > 1 else (None, None)


def environment() -> dict[str, str]:
    """Of a process that runs a peer: its own, without proxies, and with nothing sent home."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return kept | _QUIET


@contextmanager
def service(core: int | None) -> Iterator[str]:
    """The mock service in its process: its address."""
    command = [sys.executable, "-m", "bench.turns.server", *([] if core is None else [str(core)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def stamps(address: str) -> list[int]:
    """When the service wrote the last argument byte of each call since it was last asked."""
    with urllib.request.urlopen(f"{address}/stamps") as response:
        found: list[int] = json.load(response)
    return found


class Contestant:
    """A worker process that does one kind of job."""

    def __init__(self, name: str, python: Path, module: str, job: str, address: str, core: int | None) -> None:
        self.name = name
        command = [str(python), "-m", "bench.turns.worker", module, job, f"{address}/{job}/v1"]
        command += [] if core is None else [str(core)]
        logs = CACHE / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._log = logs / f"{name}.{job}.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=environment()
            )
        self._rest = b""
        try:
            self.import_ms: float = self._heard()["import_cpu"] * 1e3
        except Lost:
            self.close()
            raise

    def run(self, count: int, at_once: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"count": count, "at_once": at_once}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._lost("ended") from None
        return self._heard()

    def close(self) -> None:
        """Let it end by itself, so that it puts its things away; if it does not, end it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                raise self._lost("is stuck")
            read = os.read(pipe, 2**20)
            if not read:
                raise self._lost("ended")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _lost(self, how: str) -> Lost:
        said = self._log.read_text(errors="replace").strip().splitlines()
        return Lost(f"{self.name} {how}: {said[-1] if said else 'without a word'} (see {self._log.name})")
