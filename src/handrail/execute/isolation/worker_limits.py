"""What a worker may use: a plain one, and one in the sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.core.errors import UsageError
from handrail.core.framing import FRAME_LIMIT


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    memory_bytes: int | None = 2**30
    """Address space that a worker may add to what it starts with. Kept on Linux; elsewhere there is no limit."""
    cpu_seconds: float | None = None
    """Processor time for one call, rounded up to whole seconds. What the tool starts has the same again."""
    grace_seconds: float = 0.05
    """The time between SIGTERM, which lets a tool's `finally` blocks run, and SIGKILL."""
    frame_bytes: int = FRAME_LIMIT
    """The largest arguments and the largest result that may cross."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits for tools with `isolation="sandbox"` that set none themselves. Every limit has a value."""

    memory_bytes: int = 512 * 2**20
    """Address space that a worker may add to what it starts with."""
    cpu_seconds: float = 60.0
    """Processor time for one call, over all its threads, rounded up to whole seconds."""
    disk_bytes: int = 64 * 2**20
    """Files in the worker's own /tmp, which are kept in memory."""
    frame_bytes: int = 8 * 2**20
    """The largest arguments and the largest result that may cross. A hostile result of n bytes may take the host
    twenty times as much memory while it is read."""
    calls: int = 20
    """The calls that one worker answers before another takes its place."""

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "cpu_seconds", "disk_bytes", "frame_bytes", "calls"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} of the sandbox must be more than 0, not {getattr(self, name)!r}")
