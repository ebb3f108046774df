"""What a user may import: the public modules of handrail and their names."""

from __future__ import annotations

import importlib
import pkgutil

import handrail

PRIVATE = {"cli", "core", "http", "state", "desk", "compat"}
"""`cli`, `core`, `http`, `state` and `desk` are the house itself; `compat` has one module for each document."""


def public_modules() -> list[str]:
    inner = (each.name for each in pkgutil.iter_modules(handrail.__path__) if not each.name.startswith("_"))
    return ["handrail", *sorted(f"handrail.{name}" for name in inner if name not in PRIVATE)]


def public_names(module: str) -> list[str]:
    return sorted(importlib.import_module(module).__all__)
