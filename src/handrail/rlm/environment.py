"""Where the code of an `RLM` runs: in a sandbox of its own for each run, or in one that stays its owner's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.tasks import run_to_completion
from handrail.run.code.variable_dumps import dump_key
from handrail.sandbox.port import ReplLimits, Sandbox, create_sandbox

_OF_ENVIRONMENT = ("setup_code",)
"""What `environment_kwargs` may hold; for `rlms` it belongs there."""


class ReplEnvironment:
    """A kind of sandbox, or one that is shared."""

    def __init__(self, chosen: str | Sandbox, limits: ReplLimits) -> None:
        """A kind that there is not is a `UsageError`, one that this machine cannot have `SandboxUnavailable`."""
        if isinstance(chosen, str):
            create_sandbox(chosen, limits)  # what is missing is said now; nothing is started yet
        self._chosen = chosen
        self._limits = limits

    @property
    def kind(self) -> str:
        return self._chosen if isinstance(self._chosen, str) else self._chosen.kind

    async def enter(self, stack: AsyncExitStack, state: Path | None) -> Sandbox:
        """A sandbox until the stack is closed. `state` is the folder for what it dumps."""
        if not isinstance(self._chosen, str):
            return self._chosen
        key = None if state is None else dump_key(state)
        sandbox = create_sandbox(self._chosen, self._limits, key=key)
        stack.push_async_callback(_closed, sandbox)
        await sandbox.__aenter__()
        return sandbox


def setup_code_of(environment_kwargs: Mapping[str, Any] | None, setup_code: str) -> str:
    """The setup code of the environment, then that of the run."""
    kwargs = dict(environment_kwargs or {})
    if unknown := sorted(kwargs.keys() - set(_OF_ENVIRONMENT)):
        raise UsageError(f"environment_kwargs may hold setup_code; {unknown[0]!r} is not known. See limits=")
    return "\n".join(filter(None, (kwargs.get("setup_code", ""), setup_code)))


async def _closed(sandbox: Sandbox) -> None:
    """To its end, also when the caller is cancelled once more: no interpreter is left behind."""
    await run_to_completion(sandbox.aclose())
