"""Between a run that speaks and a client that reads: frames that are ready go out together, and neither runs ahead."""

from __future__ import annotations

import asyncio

from handrail.core.timeouts import time_limit


class FramePipe:
    """One writer, one reader."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames: list[bytes] = []
        self._size = 0
        self._closed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, frame: bytes) -> None:
        """Hand over a frame; waits while the reader is behind by more than so many bytes."""
        self.push(frame)
        if self._size > self._most:
            self._room.clear()
            await self._room.wait()

    def push(self, frame: bytes) -> None:
        """As `put`, of something so short that nobody need wait."""
        self._frames.append(frame)
        self._size += len(frame)
        self._filled.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._filled.set()

    @property
    def ended(self) -> bool:
        """Whether everything was taken."""
        return self._closed and not self._frames

    async def filled(self) -> None:
        """Until there is something to take, or nothing more comes."""
        await self._filled.wait()

    async def wait(self, seconds: float) -> None:
        """Until there is something to take, or nothing more comes, or that long."""
        if self._filled.is_set():
            return
        try:
            async with time_limit(seconds):
                await self._filled.wait()
        except TimeoutError:
            return

    def take(self) -> bytes:
        """What there is, in one piece."""
        data = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._room.set()
        if not self._closed:
            self._filled.clear()
        return data


class FrameTape:
    """One writer, any number of readers, each from the beginning: all that was written is kept, and nobody waits."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._readers: list[FramePipe] = []
        self._closed = False

    async def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        for reader in self._readers:
            reader.push(frame)

    def close(self) -> None:
        self._closed = True
        for reader in self._readers:
            reader.close()

    def reader(self) -> FramePipe:
        pipe = FramePipe(0)
        for frame in self._frames:
            pipe.push(frame)
        if self._closed:
            pipe.close()
        self._readers.append(pipe)
        return pipe

    def let_go(self, reader: FramePipe) -> None:
        """That one reads no more."""
        self._readers = [each for each in self._readers if each is not reader]

    @property
    def data(self) -> bytes:
        """All of it, in one piece."""
        return b"".join(self._frames)
