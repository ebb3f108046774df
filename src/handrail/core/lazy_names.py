"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def export_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Make names available in a package: for each module the names that it holds, separated by spaces.

    Type checkers do not see them: the package imports the same names under `TYPE_CHECKING`.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(importlib.import_module(module_of[name]), name)
        return value

    namespace.update(__all__=sorted(module_of), __getattr__=load, __dir__=lambda: sorted(module_of))
