"""Handlers behind a jail: no network, no files but those named, no other processes, and limits on all the rest.

A jail holds one worker, and a worker only ever runs tools of one module with the
same access: what one tool does to its interpreter no other tool meets. It stays warm
for some calls. What a tool prints goes nowhere. This bounds malice, up to the kernel.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Any

from handrail.core.calls import Output
from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.core.invocation import Invocation
from handrail.execute.isolation.handler_target import check_guarded, target_of
from handrail.execute.isolation.jail_host import JailStarter
from handrail.execute.isolation.process_pool import ProcessPool, WorkerPlace
from handrail.execute.isolation.sandbox_view import SandboxView, sandbox_view_of
from handrail.execute.isolation.worker_frames import NOTHING_LEFT
from handrail.execute.isolation.worker_limits import ProcessLimits, SandboxLimits
from handrail.sandbox.jail import Jail, JailLimits, unavailable
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.tool import Tool

_OURS = 256 * 2**20
"""Address space of the bare interpreter with handrail in it, and to spare. The worker itself keeps the exact limit."""
_START_SECONDS = 5
"""The processor time that a worker may use to come up."""

_Key = tuple[str, SandboxAccess]


def check_sandboxed(tool: Tool) -> None:
    """Make sure that a tool can run in the sandbox of this machine.

    Raises:
        SandboxUnavailable: This machine has none, with what to do about it.
        InvalidDefinition: The handler cannot be imported by name, or something that it names is not there.
        UsageError: This is a worker already.
    """
    check_guarded()
    if (why := unavailable()) is not None:
        raise SandboxUnavailable(f"{tool.name!r} is to run in the sandbox, and there is none here: {why}")
    sandbox_view_of(tool)


@dataclass(slots=True)
class _KeptJailPool:
    pool: ProcessPool
    running: int = 0


class SandboxPool:
    """Runs handlers in jails, as many at once as it is asked to; belongs to one event loop."""

    def __init__(self, limits: SandboxLimits = SandboxLimits(), idle: int = 2, modules: int = 4) -> None:
        """At most so many workers wait for calls of a module, and at most so many modules have such."""
        self._limits = limits
        self._idle = idle
        self._modules = modules
        self._pools: OrderedDict[_Key, _KeptJailPool] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(
        self, tool: Tool, invocation: Invocation, arguments: dict[str, Any], timeout: float | None = None
    ) -> Output:
        """Call the handler with checked JSON arguments; they become its own types on the other side.

        Raises:
            ToolError, TimedOut, InvalidDefinition, UsageError: As `ProcessPool.run` does.
            SandboxUnavailable: This machine has no sandbox.
        """
        kept = self._kept(tool)
        kept.running += 1
        try:
            return await kept.pool.run(tool, invocation, arguments, timeout)
        finally:
            kept.running -= 1

    async def aclose(self) -> None:
        """Kill and reap everything. Calls in flight are answered `worker_lost`."""
        self._closed = True
        for key in list(self._pools):
            self._drop(key)
        if self._closing:
            await asyncio.wait(self._closing)

    async def __aenter__(self) -> SandboxPool:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _kept(self, tool: Tool) -> _KeptJailPool:
        if self._closed:
            raise UsageError("the sandbox pool is closed; make a new one")
        target = target_of(tool)
        access = tool.sandbox or SandboxAccess()
        key = (target.file or target.module, access)
        if key not in self._pools:
            self._make_room()
            self._pools[key] = _KeptJailPool(self._pool(access, sandbox_view_of(tool)))
        self._pools.move_to_end(key)
        return self._pools[key]

    def _pool(self, access: SandboxAccess, sight: SandboxView) -> ProcessPool:
        defaults = self._limits
        memory = access.memory_bytes or defaults.memory_bytes
        cpu = access.cpu_seconds or defaults.cpu_seconds
        disk = access.disk_bytes or defaults.disk_bytes
        calls = defaults.calls if access.reuse else 1
        # For its whole life, and not to be moved from inside: a worker that is honest does not come near it.
        life = math.ceil(cpu + 1) * calls + _START_SECONDS
        limits = JailLimits(memory_bytes=memory + _OURS, cpu_seconds=life, disk_bytes=disk, file_bytes=disk)
        start = partial(
            JailStarter,
            jail=Jail(limits, readable=sight.readable),
            path=sight.path,
            memory_bytes=memory,
            frame_bytes=defaults.frame_bytes,
        )
        around = (sight.path, sight.directory)
        return ProcessPool(
            ProcessLimits(memory_bytes=memory, cpu_seconds=cpu, frame_bytes=defaults.frame_bytes),
            self._idle,
            WorkerPlace(start, lambda: around, NOTHING_LEFT, calls),
        )

    def _make_room(self) -> None:
        """Close those that are not in use, the one that was not for longest first."""
        idle = [key for key, kept in self._pools.items() if not kept.running]
        for key in idle[: max(0, len(self._pools) - self._modules + 1)]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        task = asyncio.get_running_loop().create_task(self._pools.pop(key).pool.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
