"""A tool in a module that is imported in no time, for the test with a thousand fresh workers."""

from __future__ import annotations

import threading

from handrail.core.invocation import Invocation


def wait_for_ever(invocation: Invocation) -> None:
    invocation.progress(stage="running")
    threading.Event().wait()
