"""What holds for every test: properties are checked on the same examples everywhere, and nothing is timed."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import PROFILE, examples
from tests.postgres import postgres_server as postgres_server, postgres_url as postgres_url

settings.register_profile(
    "same-everywhere",
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(PROFILE)

# The tests start many Pythons; none of them shall compile anew what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Approvals that tests give are never among those of whoever runs them.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="handrail-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# A shell that runs the tests in the background has them ignore Ctrl-C, and every child would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()

_MEMORY_OF_A_WORKER = 2 << 30
"""Bytes that a worker has at its end at most."""


@pytest.hookimpl(optionalhook=True)  # the other Pythons run a few tests without workers
def pytest_xdist_auto_num_workers() -> int:
    """Two for each processor, where there is memory for them: for half of their time tests wait, for processes, for
    pages, for a disk or for each other."""
    processors = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(processors, min(2 * processors, memory // _MEMORY_OF_A_WORKER))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that at the end no worker is busy with it while the others have nothing left."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end: the garbage collector never looks at it, which would take
    half of the time that collecting takes, and some of each test's."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
