"""PocketSphinx: English, on this machine alone. It is small and often wrong; the docs say so."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from handrail.core.child_process import PLAIN_VARIABLES, kept_variables, kill_group
from handrail.core.errors import BusError
from handrail.node.services.stt.recording import PcmRecording

Segment = dict[str, Any]
_WORKER = Path(__file__).with_name("worker.py")
_LONGEST_LINE = 1 << 20


class SphinxRecogniser:
    """Its model is loaded for each recording, in a process of its own: a decoder remembers the last speaker."""

    language = "en"

    @staticmethod
    def missing() -> bool:
        return find_spec("pocketsphinx") is None

    async def segments(self, sound: PcmRecording) -> AsyncGenerator[Segment, None]:
        """What is said between two pauses, one after the other, as it is understood. Closing it ends the work.

        Raises:
            BusError: The worker ended before it was done (`internal_error`).
        """
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        command = (sys.executable, "-I", str(_WORKER), str(sound.rate))
        env = kept_variables(PLAIN_VARIABLES)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=nothing, limit=_LONGEST_LINE, start_new_session=True, env=env
        )
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(ConnectionError):  # then it has ended, and says nothing below
                process.stdin.write(sound.samples)
                await process.stdin.drain()
            process.stdin.close()
            while line := await process.stdout.readline():
                if (segment := json.loads(line)) is None:
                    return
                yield segment
            raise BusError("internal_error", "the recogniser ended before it was done; try a shorter recording")
        finally:
            if process.returncode is None:
                kill_group(process)
            await process.wait()
