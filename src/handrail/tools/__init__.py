"""Tools: a function, a schema or a TOML file → `Tool` → `Ensemble` → `ToolRegistry`.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.tools.definition import ToolDefinition as ToolDefinition
    from handrail.tools.ensemble import Ensemble as Ensemble, ToolDefaults as ToolDefaults
    from handrail.tools.files.build import build_tool as build_tool
    from handrail.tools.files.load import (
        load_ensemble as load_ensemble,
        load_ensembles as load_ensembles,
        load_tool as load_tool,
    )
    from handrail.tools.groups import filtered as filtered, prefixed as prefixed, renamed as renamed
    from handrail.tools.registry import (
        RegisteredTools as RegisteredTools,
        ToolLike as ToolLike,
        ToolRegistry as ToolRegistry,
        registered as registered,
    )
    from handrail.tools.sandbox_access import SandboxAccess as SandboxAccess
    from handrail.tools.tool import Retry as Retry, Tool as Tool

export_lazily(
    __name__,
    {
        "handrail.tools.definition": "ToolDefinition",
        "handrail.tools.ensemble": "Ensemble ToolDefaults",
        "handrail.tools.files.build": "build_tool",
        "handrail.tools.files.load": "load_ensemble load_ensembles load_tool",
        "handrail.tools.groups": "filtered prefixed renamed",
        "handrail.tools.registry": "RegisteredTools ToolLike ToolRegistry registered",
        "handrail.tools.sandbox_access": "SandboxAccess",
        "handrail.tools.tool": "Retry Tool",
    },
)
