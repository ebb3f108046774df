"""How a program that serves is told to end, and to read its configuration again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from handrail.cli.output.view import tell


async def told_to_end() -> None:
    """Wait until SIGTERM or Ctrl-C asks for the end of the program."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told.set)
    try:
        await told.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


@contextmanager
def rereading(reload: Callable[[], Awaitable[str]]) -> Iterator[None]:
    """Within this, SIGHUP has the configuration read again, and what came of it is told. Under `nohup` nothing does."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        yield
        return
    loop = asyncio.get_running_loop()
    under_way: set[asyncio.Task[None]] = set()

    async def read() -> None:
        tell(await reload())

    def told() -> None:
        task = loop.create_task(read())
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    loop.add_signal_handler(signal.SIGHUP, told)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in under_way:
            task.cancel()
