"""A REPL of CPython in a process of its own, behind a jail or not. What it sends is checked, never believed."""

from handrail.sandbox.kernel.sandbox import KernelSandbox

__all__ = ["KernelSandbox"]
