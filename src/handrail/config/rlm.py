"""The table `[rlm]` of a file: how `handrail rlm` explores a context that no window holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from handrail.config.setting_kinds import AMOUNT, SECONDS, TEXT, TEXTS, Kinds, SettingKind, choice, count, stated
from handrail.sandbox.port import Kind as Environment, ReplLimits
from handrail.tools.files.toml_table import TomlTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RlmSettings:
    model: str | None = None
    """The one that writes the code; None is the default model."""
    sub_models: tuple[str, ...] = ()
    """The models that the code asks, the first unless it names one. Without any, the code asks the model that writes
    it."""
    sub_window: int | None = None
    """Characters that they can read at once, where they do not say so themselves."""
    tools: tuple[str, ...] | None = None
    """Which of the configured tools code may call, by their names or by patterns; None is none."""
    environment: str = "monty"
    max_depth: int = 1
    max_iterations: int = 30
    max_budget: float | None = None
    """The budget in US dollars, sub-queries included."""
    max_timeout: float | None = None
    max_tokens: int | None = None
    max_errors: int | None = None
    """Turns in a row whose code failed."""
    concurrency: int = 16
    """Sub-queries at once."""
    limits: ReplLimits = field(default_factory=ReplLimits)


MIB = 2**20
KEYS: Kinds = {
    "model": TEXT,
    "sub_models": TEXTS,
    "sub_window": count(1),
    "tools": TEXTS,
    "environment": choice(*get_args(Environment)),
    "max_depth": count(1),
    "max_iterations": count(1),
    "max_budget": AMOUNT,
    "max_timeout": SECONDS,
    "max_tokens": count(1),
    "max_errors": count(1),
    "concurrency": count(1),
    "memory_mb": SettingKind("count", lambda table, key: (table.count(key, 16) or 0) * MIB, least=16),
    "cell_seconds": SECONDS,
}
_OF_THE_REPL = {"memory_mb": "memory_bytes", "cell_seconds": "cell_seconds"}


def read_rlm(top: TomlTable, is_model: Callable[[str], bool]) -> RlmSettings:
    """What a file says under `[rlm]`.

    Raises:
        ConfigError: Something in it is wrong.
    """
    table = top.table("rlm")
    if table is None:
        return RlmSettings()
    said = stated(table.only(KEYS), KEYS)
    for key in ("model", "sub_models"):
        for name in (said[key],) if isinstance(said.get(key), str) else said.get(key, ()):
            if not is_model(name):
                raise table.error(key, f"there is no [models.{name}]; write it there, or as PROVIDER:MODEL")
    repl = {field: said.pop(key) for key, field in _OF_THE_REPL.items() if key in said}
    return RlmSettings(**said, limits=dataclasses.replace(ReplLimits(), **repl))
