"""What a run may do once it has read words from outside.

A page, a mail or a ticket may tell the model to do something. Nobody can tell that
from what its user wants, so what counts is only that such words were read: then the
policy decides about side effects. This is no filter of texts.
"""

from __future__ import annotations

from handrail.core.calls import ToolResult
from handrail.core.errors import Denied
from handrail.execute.ledger import CallLedger
from handrail.execute.policy import AfterUntrusted
from handrail.tools.tool import Tool


def is_untrusted_result(tool: Tool | None, result: ToolResult) -> bool:
    """Whether the words of a result are those of an untrusted tool, and not our own about it."""
    return tool is not None and tool.definition.untrusted and result.outcome in ("ok", "failed")


def why_confirm_after_untrusted(tool: Tool, ledger: CallLedger, after: AfterUntrusted) -> str:
    """Why a person must give their word for this side effect now; nothing if the policy does not ask for it.

    Raises:
        Denied: The policy refuses it.
    """
    if after == "allow" or not ledger.untrusted:
        return ""
    why = f"this run has read words from outside ({', '.join(sorted(ledger.untrusted))}), which may be what asks for it"
    if after == "deny":
        raise Denied(f"{tool.name!r} changes something, and {why}; it is not run: tell the user what you wanted to do")
    return why
