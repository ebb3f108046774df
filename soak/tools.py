"""Tools that worker processes import: one that works, one that hangs, one that takes its process with it."""

from __future__ import annotations

import os
import time

from handrail import tool


@tool(isolation="process", share=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(isolation="process", share=False, timeout=0.05)
def hang(a: int) -> int:
    """Take longer than is allowed."""
    time.sleep(60)
    return a


@tool(isolation="process", share=False)
def fall(a: int) -> int:
    """End the process."""
    os._exit(3)
