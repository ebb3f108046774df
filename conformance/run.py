"""All scenarios of a set, two at a time, against the fixture server or with the fixture client."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from conformance.suite import ROOT, Role, Scenario, Score, Set, run, scenarios

_AT_ONCE = 2
"""More, and clients on a small machine come too late for the suite."""
_GRACE = 10.0


def chosen(role: Role, groups: Sequence[Set], only: str = "") -> list[Scenario]:
    """The scenarios of these sets whose names hold `only`."""
    return [scenario for group in groups for scenario in scenarios(role, group) if only in scenario.name]


def run_all(wanted: Sequence[Scenario], note: Callable[[Score], None]) -> list[Score]:
    """Run them, in the order given; the server, where one is needed, is started once per set."""
    scores: list[Score] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for part in _by_set(wanted):
            with _target(part[0]) as url:
                for score in pool.map(lambda scenario: run(scenario, url=url), part):
                    note(score)
                    scores.append(score)
    return scores


def _by_set(wanted: Sequence[Scenario]) -> list[list[Scenario]]:
    parts: dict[tuple[Role, Set], list[Scenario]] = {}
    for scenario in wanted:
        parts.setdefault((scenario.role, scenario.set), []).append(scenario)
    return list(parts.values())


@contextlib.contextmanager
def _target(scenario: Scenario) -> Iterator[str]:
    if scenario.role == "client":
        yield ""
        return
    with fixture_server() as url:
        yield url


@contextlib.contextmanager
def fixture_server() -> Iterator[str]:
    """`conformance/server.py` in a process of its own; it says its address in its first line."""
    command = [sys.executable, "-m", "conformance.server"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = next((word for word in line.split() if word.startswith("http")), "")
            if not url:
                raise RuntimeError(f"the fixture server did not say where it is, but {line!r}")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
