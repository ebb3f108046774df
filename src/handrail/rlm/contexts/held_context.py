"""A context as a run holds it: what is bound in the REPL, and what answers when its code asks for more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from handrail.rlm.contexts.text_library import TextLibrary
from handrail.sandbox.port import JSON, HostError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldContext:
    variable: str
    """What code calls it."""
    bind: dict[str, JSON] = field(default_factory=dict)
    """Variables to `put` before the prelude runs."""
    prelude: str = ""
    """Python to run in the REPL before the first cell; empty if nothing is held outside."""
    description: str
    """For the model: what it is, how much, and how to read it."""
    fingerprint: str
    library: TextLibrary | None = None

    def serves(self, name: str) -> bool:
        """Whether `_host(name, …)` is for this context."""
        return self.library is not None and name.startswith(f"{self.variable}.")

    async def serve(self, name: str, value: JSON) -> JSON:
        """Answer `_host(name, value)` of a cell. Nothing changes by it, so it may be asked again.

        Raises:
            HostError: In words for the one who wrote the code.
        """
        if self.library is None or not self.serves(name):
            raise HostError(f"nothing answers to {name!r} here", "NameError")
        return await self.library.answer(name.removeprefix(f"{self.variable}."), value)

    def digest(self) -> str:
        """The same when a run is taken up again over the same context."""
        return self.fingerprint

    async def aclose(self) -> None:
        if self.library is not None:
            self.library.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
