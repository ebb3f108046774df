"""Approvers for tests."""

from __future__ import annotations

from handrail.core.confirmation import Allow, Confirmation, Decision


class FixedApprover:
    """Gives the same answer to every question, and keeps the questions."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.questions: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.questions.append(question)
        return self.decision


def allow_all() -> FixedApprover:
    return FixedApprover(Allow("ada"))
