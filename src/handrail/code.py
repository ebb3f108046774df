"""Code mode: a model writes Python that calls tools, in a sandbox."""

from __future__ import annotations

from handrail.run.code.code_mode import CodeMode, CodeSettings

__all__ = [
    "CodeMode",
    "CodeSettings",
]
