"""Code in Monty: a Python of its own, written in Rust, in worker processes that hold no authority at all."""

from handrail.sandbox.monty.sandbox import MontySandbox

__all__ = ["MontySandbox"]
