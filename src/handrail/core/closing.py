"""Objects that are closed at the end of `async with`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class ClosedOnExit:
    """Leaving `async with` closes the object. One that has to open something first has an `__aenter__` of its own."""

    __slots__ = ()

    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
