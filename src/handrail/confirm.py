"""How a person, or a program in their place, approves calls: decisions, approvers and standing rules.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.core.confirmation import (
        Allow as Allow,
        Confirmation as Confirmation,
        Decision as Decision,
        Defer as Defer,
        Deny as Deny,
        Edit as Edit,
    )
    from handrail.core.ports import Approver as Approver
    from handrail.core.secret_pointers import restore_masked as restore_masked
    from handrail.execute.approvers import (
        AnyApprover as AnyApprover,
        ApproverAnswer as ApproverAnswer,
        ApproverFunction as ApproverFunction,
        as_approver as as_approver,
    )
    from handrail.execute.rules import Rules as Rules
    from handrail.execute.terminal.approver import TerminalApprover as TerminalApprover

export_lazily(
    __name__,
    {
        "handrail.core.confirmation": "Allow Confirmation Decision Defer Deny Edit",
        "handrail.core.ports": "Approver",
        "handrail.core.secret_pointers": "restore_masked",
        "handrail.execute.approvers": "AnyApprover ApproverAnswer ApproverFunction as_approver",
        "handrail.execute.rules": "Rules",
        "handrail.execute.terminal.approver": "TerminalApprover",
    },
)
