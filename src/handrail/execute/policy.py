"""How calls are treated where their tools say nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from handrail.core.errors import UsageError
from handrail.execute.isolation.worker_limits import ProcessLimits, SandboxLimits
from handrail.execute.output_limit import SMALLEST
from handrail.tools.tool import Retry

AfterUntrusted = Literal["allow", "confirm", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One value for code and for the `[policy]` table of a file."""

    timeout: float = 30.0
    """Seconds that a tool may take."""
    max_output: int = 10_000
    """Characters of a result that the model is sent."""
    concurrency: int = 8
    """Calls that run at once, over all tools."""
    max_depth: int = 6
    """How deep tools may call tools."""
    confirm_side_effects: bool = True
    after_untrusted: AfterUntrusted = "allow"
    """What becomes of a side effect once the run has read a result of an untrusted tool: as ever, put to a person
    whatever standing rules allow, or refused."""
    repair: bool = False
    """Read arguments leniently, for every tool; each repair leaves a warning."""
    retry: Retry | None = None
    deduplicator: Any = None
    """For tools that have none of their own."""
    max_left_running: int = 32
    """Timed-out calls that could not be stopped; past this many, calls that might join them are refused."""
    cancel_grace: float = 0.5
    """Seconds that a cancelled call gets to end, so that its real result is known."""
    process: ProcessLimits = field(default_factory=ProcessLimits)
    sandbox: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        if self.after_untrusted not in get_args(AfterUntrusted):
            raise UsageError(f"after_untrusted is 'allow', 'confirm' or 'deny', not {self.after_untrusted!r}")
        if self.max_output < SMALLEST:
            raise UsageError(f"max_output must be at least {SMALLEST} characters, not {self.max_output}")
        for name in ("timeout", "concurrency", "max_depth", "max_left_running"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be more than 0, not {getattr(self, name)!r}")
