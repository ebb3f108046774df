"""Whether a tool can run where it says. Asked when a tool is taken in, so that no call finds out."""

from __future__ import annotations

from handrail.execute.isolation.handler_target import check_importable
from handrail.tools.tool import Tool


def check_isolation(tool: Tool) -> None:
    """
    Raises:
        InvalidDefinition: A worker process would not find its handler, or something that it names is not there.
        SandboxUnavailable: It is for the sandbox, and this machine has none.
    """
    match tool.isolation:
        case "process":
            check_importable(tool)
        case "sandbox":
            from handrail.execute.isolation.sandbox_pool import check_sandboxed  # few programs have such tools

            check_sandboxed(tool)
