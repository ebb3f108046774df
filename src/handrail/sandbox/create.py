"""A sandbox by its name. What is missing is said, never replaced by something weaker."""

from __future__ import annotations

from typing import get_args

from handrail.core.errors import UsageError
from handrail.sandbox.port import Kind, ReplLimits, Sandbox


def create_sandbox(kind: str, limits: ReplLimits = ReplLimits(), *, key: bytes | None = None) -> Sandbox:
    """The place of that kind. Nothing is started yet. Dumps are good wherever the same `key` is given.

    Raises:
        UsageError: There is no such kind.
        SandboxUnavailable: This machine cannot have it, with what to do about it.
        MissingExtra: What it needs is not installed.
    """
    match kind:
        case "monty":
            from handrail.sandbox.monty import MontySandbox

            return MontySandbox(limits, key=key)
        case "os":
            from handrail.sandbox.jail import Jail
            from handrail.sandbox.kernel import KernelSandbox

            return KernelSandbox(limits, jail=Jail.for_repl(limits))
        case "process":
            from handrail.sandbox.kernel import KernelSandbox

            return KernelSandbox(limits)
    raise UsageError(f"there is no sandbox {kind!r}; there are {', '.join(get_args(Kind))}")
