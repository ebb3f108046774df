"""What a configuration says, as values. They can be made in code as well as read from `handrail.toml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from handrail.config.approval_settings import ApprovalSettings
from handrail.config.hook import HookSettings
from handrail.config.mcp import McpSettings, ServeSettings, StandardSettings
from handrail.config.network import NodeSettings, ServiceSettings
from handrail.config.retention import RetentionSettings
from handrail.config.rlm import RlmSettings
from handrail.config.state import StateSettings
from handrail.execute.policy import Policy
from handrail.execute.rules import Rule
from handrail.run.limits import Limits
from handrail.run.offering import Offering

LOCAL = "local"
"""The provider that needs neither model nor key nor address: the embedded model."""
STANDARD_SET = ("search_corpus", "list_corpora", "translate", "list_marketplace")
"""The tools of a node that are offered unless somebody chooses others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """The six settings of HearthNet's `config.llm`, by their own names."""

    tools_enabled: bool = True
    """Whether models are offered tools at all."""
    tools_max_iterations: int = 6
    """Turns in which the model may call tools; then it is asked for its answer."""
    tools_per_tool_timeout_seconds: float = 30.0
    tools_max_parallel: int = 4
    """Calls that run at once."""
    tools_default_set: tuple[str, ...] = STANDARD_SET
    """The tools that are offered when nobody names any. As long as it is the standard set, all of the ensembles'."""
    tools_require_confirmation_for_side_effects: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model under the name that people give it."""

    provider: str
    model: str | None = None
    key: str | None = None
    """`env:NAME`: where the key is. Never the key."""
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    fallback: tuple[str, ...] = ()
    """The names of the models that are asked, in order, when this one gives no reply."""
    tools: tuple[str, ...] | None = None
    """The tools that are valid for it, by their names or by patterns, as `io:read_*`; None is all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a `handrail.toml` can say. Without a file, the defaults."""

    file: Path | None = None
    default_model: str | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=lambda: MappingProxyType({}))
    llm: LlmSettings = LlmSettings()
    calls: Policy = field(default_factory=Policy)
    """How calls are treated, except for what `llm` says of it."""
    bounds: Limits = field(default_factory=Limits)
    """How far a run may go, except for what `llm` says of it."""
    offering: Offering = field(default_factory=Offering)
    """Which of many tools a turn offers."""
    rules: tuple[Rule, ...] = ()
    ensembles: tuple[Path, ...] = ()
    mcp: Mapping[str, McpSettings] = field(default_factory=lambda: MappingProxyType({}))
    """MCP servers whose tools are used, by the names that people give them."""
    standard: StandardSettings = field(default_factory=StandardSettings)
    """Which of handrail's own ensembles are used, and how."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    """What others are served, over MCP."""
    node: NodeSettings = field(default_factory=NodeSettings)
    """What this node is to others on the bus."""
    services: ServiceSettings = field(default_factory=ServiceSettings)
    """What it does for them."""
    rlm: RlmSettings = field(default_factory=RlmSettings)
    """How contexts that no window holds are explored."""
    journal: Path | None = None
    approvals: ApprovalSettings = field(default_factory=ApprovalSettings)
    """Who is told of a call that waits for approval."""
    hook: HookSettings = field(default_factory=HookSettings)
    """How calls of a coding agent are treated."""
    state: StateSettings = field(default_factory=StateSettings)
    """Where several replicas keep their shared state; by default each keeps its own in files."""
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    """How long data is kept; by default for ever."""

    @property
    def policy(self) -> Policy:
        return dataclasses.replace(
            self.calls,
            timeout=self.llm.tools_per_tool_timeout_seconds,
            concurrency=self.llm.tools_max_parallel,
            confirm_side_effects=self.llm.tools_require_confirmation_for_side_effects,
        )

    @property
    def limits(self) -> Limits:
        return dataclasses.replace(self.bounds, iterations=self.llm.tools_max_iterations)
