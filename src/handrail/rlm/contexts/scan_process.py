"""Asks a process of its own to look through texts, and ends it when its time is over."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from handrail.core.timeouts import time_limit
from handrail.sandbox.port import HostError

SECONDS = 30.0

_PROGRAM = Path(__file__).with_name("scan.py")


async def run_scan(asked: dict[str, Any], texts: Iterable[dict[str, Any]], seconds: float = SECONDS) -> Any:
    """What the program answers.

    Raises:
        HostError: The pattern is none, or takes too long, or a file changed.
    """
    request, files = await asyncio.to_thread(_written, asked, texts)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(_PROGRAM)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=files,
    )
    try:
        async with time_limit(seconds):
            output, _ = await process.communicate(request)
    except TimeoutError:
        raise HostError(_slow(seconds), "TimeoutError") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        said = json.loads(output)
    except ValueError:
        raise HostError("the search broke off; take a simpler pattern") from None
    if "error" in said:
        raise HostError(said["error"], said["kind"])
    return said["value"]


def _written(asked: dict[str, Any], texts: Iterable[dict[str, Any]]) -> tuple[bytes, tuple[int, ...]]:
    """The request, and the descriptors that it names."""
    listed = list(texts)
    return json.dumps({**asked, "texts": listed}).encode(), tuple({each["fd"] for each in listed if "fd" in each})


def _slow(seconds: float) -> str:
    return f"looking took more than {seconds:g} s; take a simpler pattern, or look through less"
