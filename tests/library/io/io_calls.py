"""Calls of io tools through the executor, as a model makes them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from handrail import Ensemble, Executor, ToolCall, ToolResult
from handrail.library.io import IoSettings, io_ensemble
from handrail.library.io.confined_files import Beneath, open_beneath
from handrail.library.io.openat2 import openat2
from handrail.library.io.stepwise_open import open_stepwise
from tests.execute.approvers import allow_all

WAYS: dict[str, Beneath] = {"openat2": openat2, "walk": open_stepwise, "either": open_beneath}


class Scene:
    """One ensemble and an executor; everything that is asked is allowed."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._executor = await self._stack.enter_async_context(Executor([self.ensemble], approver=allow_all()))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def call(self, tool: str, **arguments: Any) -> ToolResult:
        return await self._executor.invoke(ToolCall("", tool, arguments))

    async def text(self, tool: str, **arguments: Any) -> str:
        """What a call gives that goes well."""
        result = await self.call(tool, **arguments)
        assert result.outcome == "ok", result.text
        return result.text

    async def code(self, tool: str, **arguments: Any) -> str:
        """Why a call fails that fails."""
        result = await self.call(tool, **arguments)
        assert result.error is not None, result.text
        return result.error.code


def files(root: Path, *, write: bool = True, **settings: Any) -> Scene:
    return Scene(io_ensemble(IoSettings(roots={"work": root}, write=("work",) if write else (), **settings)))


def tree(root: Path, **content: str) -> None:
    """Files by their paths, in which `__` is a slash."""
    for name, text in content.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def contents(root: Path) -> dict[str, str]:
    """What `tree` made, by path."""
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
