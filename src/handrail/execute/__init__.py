"""The executor: one call, validated, authorised, approved, bounded and recorded.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.execute.dedupe.create import create_deduplicator as create_deduplicator
    from handrail.execute.dedupe.matching import Deduplicator as Deduplicator
    from handrail.execute.executor import Executor as Executor
    from handrail.execute.isolation.worker_limits import SandboxLimits as SandboxLimits
    from handrail.execute.policy import Policy as Policy
    from handrail.execute.rules import Rules as Rules
    from handrail.execute.spill import MemorySpill as MemorySpill, read_output_tool as read_output_tool

export_lazily(
    __name__,
    {
        "handrail.execute.dedupe.create": "create_deduplicator",
        "handrail.execute.dedupe.matching": "Deduplicator",
        "handrail.execute.executor": "Executor",
        "handrail.execute.isolation.worker_limits": "SandboxLimits",
        "handrail.execute.policy": "Policy",
        "handrail.execute.rules": "Rules",
        "handrail.execute.spill": "MemorySpill read_output_tool",
    },
)
