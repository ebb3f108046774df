"""Every setting that a file can have, by table: the kinds that the readers read by, and the defaults.

A key that a reader learns is here by itself. A form is made from this; `ANY` stands for the names that people give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from handrail.config import approval_settings, hook, load, mcp, network, retention, rlm, standard, state
from handrail.config.mcp import ConverseSettings, ServeSettings
from handrail.config.setting_kinds import FLAG, Kinds
from handrail.config.values import Config, LlmSettings
from handrail.execute.origins.flows import Flows
from handrail.library.summarization.fold import SummarizationSettings
from handrail.run.offering import Offering

ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    path: tuple[str, ...]
    kinds: Kinds = field(default_factory=lambda: MappingProxyType({}))
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Defaults as a file would write them. A setting that is not here is empty by default, or does what its help says.
    """
    where_there: bool = False
    """Whether the table means something by being there, so that nobody makes one by filling in a field."""


def _defaults(kinds: Kinds, *values: Any, **more: Any) -> dict[str, Any]:
    said = {key: getattr(value, key) for value in values for key in kinds if hasattr(value, key)} | more
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in said.items()
        if _is_shown_default(value)
    }


def _is_shown_default(value: Any) -> bool:
    return isinstance(value, bool | int | float | tuple) or (isinstance(value, str) and value != "")


def _tables() -> Iterable[SettingsTable]:
    repl = rlm.RlmSettings().limits
    services: Kinds = dict.fromkeys(network.SERVICES, FLAG)
    summarization: Kinds = {**standard.ENABLED, **standard.MODEL, **standard.SUMMARIZATION}
    yield SettingsTable(path=(), kinds=load.TOP)
    yield SettingsTable(path=("models", ANY), kinds=load.MODEL, where_there=True)
    yield SettingsTable(path=("llm",), kinds=load.LLM, defaults=_defaults(load.LLM, LlmSettings()))
    yield SettingsTable(path=("policy",), kinds=load.POLICY, defaults=_defaults(load.POLICY, Config().policy))
    yield SettingsTable(path=("policy", "flows"), kinds=load.FLOWS, defaults=_defaults(load.FLOWS, Flows()))
    yield SettingsTable(path=("limits",), kinds=load.LIMITS, defaults=_defaults(load.LIMITS, Config().limits))
    yield SettingsTable(path=("offering",), kinds=load.OFFERING, defaults=_defaults(load.OFFERING, Offering()))
    yield SettingsTable(path=("mcp",))
    yield SettingsTable(path=("standard", "io"), kinds={**standard.ENABLED, **standard.IO}, where_there=True)
    yield SettingsTable(path=("standard", "probability"), kinds=standard.ENABLED, where_there=True)
    made = _defaults(summarization, SummarizationSettings())
    yield SettingsTable(path=("standard", "summarization"), kinds=summarization, defaults=made, where_there=True)
    yield SettingsTable(path=("serve",), kinds=mcp.SERVE, defaults=_defaults(mcp.SERVE, ServeSettings()))
    made = _defaults(mcp.CONVERSE, ConverseSettings())
    yield SettingsTable(path=("serve", "converse"), kinds=mcp.CONVERSE, defaults=made, where_there=True)
    yield SettingsTable(path=("node",), kinds=network.NODE, defaults=_defaults(network.NODE, network.NodeSettings()))
    made = dict.fromkeys(network.SERVICES, True)
    yield SettingsTable(path=("services",), kinds={**services, **network.SERVICE}, defaults=made)
    for name, kinds in network.OPTIONS.items():
        yield SettingsTable(path=("services", name), kinds=kinds)
    made = _defaults(rlm.KEYS, rlm.RlmSettings(), repl, memory_mb=repl.memory_bytes // rlm.MIB)
    yield SettingsTable(path=("rlm",), kinds=rlm.KEYS, defaults=made)
    yield SettingsTable(path=("proof",), kinds=load.PROOF)
    made = _defaults(approval_settings.KEYS, approval_settings.ApprovalSettings())
    yield SettingsTable(path=("approvals",), kinds=approval_settings.KEYS, defaults=made)
    yield SettingsTable(path=("hook",), kinds=hook.HOOK, defaults=_defaults(hook.HOOK, hook.HookSettings()))
    yield SettingsTable(path=("state",), kinds=state.KEYS)
    yield SettingsTable(path=("retention",), kinds=retention.RETENTION)


TABLES: tuple[SettingsTable, ...] = tuple(_tables())
SAME: Mapping[tuple[str, ...], tuple[str, ...]] = {path: ("llm", same) for path, same in load.SAME.items()}
"""Two names for one setting: the first is shown only where a text has it."""
