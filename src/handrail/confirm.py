"""How a person, or a program in their place, approves calls: decisions, approvers and standing rules."""

from __future__ import annotations

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.ports import Approver
from handrail.core.secret_pointers import restore_masked
from handrail.execute.rules import Rules

__all__ = [
    "Allow",
    "Approver",
    "Confirmation",
    "Decision",
    "Defer",
    "Deny",
    "Edit",
    "Rules",
    "restore_masked",
]
