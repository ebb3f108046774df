"""Places for code that nobody vouches for: `create_sandbox` opens one.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.sandbox.port import (
        Cell as Cell,
        Host as Host,
        HostError as HostError,
        Repl as Repl,
        ReplLimits as ReplLimits,
        Sandbox as Sandbox,
        create_sandbox as create_sandbox,
    )

export_lazily(
    __name__,
    {
        "handrail.sandbox.port": "Cell Host HostError Repl ReplLimits Sandbox create_sandbox",
    },
)
