"""Everything that runs of one `RLM` have in common. A child of a run has the same, one level deeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from handrail.core.errors import UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, Journal, Model, SystemClock, Tracer
from handrail.execute.approvers import AnyApprover
from handrail.execute.policy import Policy
from handrail.rlm.backends import READS
from handrail.rlm.custom_tools import CustomTools
from handrail.rlm.prompts import SYSTEM
from handrail.rlm.query.queries import OnRequest
from handrail.rlm.watchers import SafeWatcher
from handrail.run.single_run import OnWait
from handrail.sandbox.port import ReplLimits
from handrail.tools.ensemble import Ensemble


class RlmRunOptions(TypedDict, total=False):
    """What a program says to an `RLM` that its runs take as it is. `RlmSetup` has the defaults."""

    limits: ReplLimits
    concurrency: int
    """Queries of one batch that are answered at once."""
    depth: int
    max_depth: int
    """How deeply `rlm_query` may nest; at 1 it is `llm_query`."""
    max_iterations: int
    max_errors: int | None
    """Turns in a row whose code fails."""
    policy: Policy
    approver: AnyApprover | None
    deps: Any
    """What custom tools get as `Invocation.deps`, those of children too."""
    on_wait: OnWait
    """When a call of code waits for a person: `tell` the code, by an exception; or `pause` the run there. Its
    completion is then `partial`, and once there is a decision the run is taken up at this very call."""
    tracer: Tracer | None
    on_request: OnRequest | None
    """Told of each query of the code and its answer."""
    clock: Clock
    new_id: NewId


@dataclass(frozen=True, slots=True, kw_only=True)
class RlmSetup:
    """Models, what their code may use, and how far they may go. See `RlmRunOptions`."""

    root: Model
    sub: Model | None = None
    models: Mapping[str, Model] = field(default_factory=dict)
    limits: ReplLimits = field(default_factory=ReplLimits)
    sub_window: int = READS
    """Characters that the models which code asks take at once."""
    concurrency: int = 16
    setup_code: str = ""
    depth: int = 0
    max_depth: int = 1
    max_iterations: int = 30
    max_errors: int | None = None
    system_prompt: str = SYSTEM
    custom: CustomTools = field(default_factory=CustomTools)
    custom_sub: CustomTools = field(default_factory=CustomTools)
    journal: Journal | None = None
    policy: Policy = field(default_factory=Policy)
    approver: AnyApprover | None = None
    deps: Any = None
    on_wait: OnWait = "tell"
    tracer: Tracer | None = None
    state: Path | None = None
    on_request: OnRequest | None = None
    watcher: SafeWatcher | None = None
    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id

    def __post_init__(self) -> None:
        for name in ("max_depth", "max_iterations", "max_errors", "sub_window", "concurrency"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value!r}")
        for item in (*self.custom.tools, *self.custom_sub.tools):
            for tool in item.tools if isinstance(item, Ensemble) else (item,):
                tool.check_deps(self.deps)

    @property
    def has_children(self) -> bool:
        """Whether a question of its code is worked on in a REPL of its own."""
        return self.depth + 1 < self.max_depth

    def below(self, root: Model) -> RlmSetup:
        """The setup of a child run."""
        return replace(self, root=root, depth=self.depth + 1, custom=self.custom_sub)
