"""How calls are treated where their tools say nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.errors import Denied, Forbidden, UsageError
from handrail.execute.isolation.worker_limits import ProcessLimits, SandboxLimits
from handrail.execute.ledger import CallLedger
from handrail.execute.origins.flows import Flows
from handrail.execute.output import SMALLEST
from handrail.tools.tool import Retry, Tool

AfterUntrusted = Literal["origins", "allow", "confirm", "deny"]


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
    """How deeply tools may call tools."""
    confirm_side_effects: bool = True
    after_untrusted: AfterUntrusted = "origins"
    """What becomes of a side effect once the run has read a result of an untrusted tool: a person is asked where what
    directs it has no trusted origin (`flows` says it more finely), as ever, put to a person whatever standing rules
    allow, or refused."""
    flows: Flows = field(default_factory=Flows)
    """What becomes of what has no trusted origin, and of private values that leave."""
    repeat_window: float = 300.0
    """Seconds in which a client that was restarted gets the result of an equal call instead of a second effect."""
    repair: bool = False
    """Read arguments leniently, for every tool; each repair leaves a warning."""
    retry: Retry | None = None
    deduplicator: Any = None
    """The deduplicator of tools that have none of their own."""
    max_left_running: int = 32
    """Timed-out calls that could not be stopped; past this many, calls that might join them are refused."""
    cancel_grace: float = 0.5
    """Seconds that a cancelled call gets to end, so that its real result is known."""
    process: ProcessLimits = field(default_factory=ProcessLimits)
    sandbox: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        if self.after_untrusted not in get_args(AfterUntrusted):
            raise UsageError(
                f"after_untrusted is 'origins', 'allow', 'confirm' or 'deny', not {self.after_untrusted!r}"
            )
        if not isinstance(self.flows, Flows):
            raise UsageError(f"flows is a Flows, as Flows(private='deny'), not {self.flows!r}")
        if self.max_output < SMALLEST:
            raise UsageError(f"max_output must be at least {SMALLEST} characters, not {self.max_output}")
        for name in ("timeout", "concurrency", "max_depth", "max_left_running"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be more than 0, not {getattr(self, name)!r}")


class ScopeAuthoriser:
    """Rights as values: the scopes of the principal, narrowed by those of the call."""

    async def authorise(self, context: Context, names: tuple[str, ...]) -> None:
        if not context.allows(*names):
            raise Forbidden(f"{names[0]!r} is outside what {context.principal.id!r} may call; do not try it again")


def is_untrusted_result(tool: Tool | None, result: ToolResult) -> bool:
    """Whether the words of a result are those of an untrusted tool, and not our own about it."""
    return tool is not None and bool(tool.definition.untrusted) and result.outcome in ("ok", "failed")


def why_confirm_after_untrusted(tool: Tool, ledger: CallLedger, after: AfterUntrusted) -> str:
    """Why a person must decide for this side effect now; nothing if the policy does not ask for it.

    Raises:
        Denied: The policy refuses it.
    """
    read = ledger.origins.untrusted
    if after in ("allow", "origins") or not read:
        return ""
    why = f"this run has read words from outside ({', '.join(sorted(read))}), which may be what asks for it"
    if after == "deny":
        raise Denied(f"{tool.name!r} changes something, and {why}; it is not run: tell the user what you wanted to do")
    return why
