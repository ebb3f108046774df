"""The interfaces that adapters implement: models, journals, approvers, clocks."""

from __future__ import annotations

from handrail.core.ports import (
    Approver,
    Authoriser,
    Clock,
    CompletesText,
    CountsTokens,
    Embedder,
    HoldsToSchema,
    Invoker,
    Journal,
    Lease,
    Model,
    NamesProvider,
    SearchesTools,
    SharedAnswers,
    Span,
    Spill,
    SystemClock,
    TakesTools,
    Tracer,
    WritesCode,
)

__all__ = [
    "Approver",
    "Authoriser",
    "Clock",
    "CompletesText",
    "CountsTokens",
    "Embedder",
    "HoldsToSchema",
    "Invoker",
    "Journal",
    "Lease",
    "Model",
    "NamesProvider",
    "SearchesTools",
    "SharedAnswers",
    "Span",
    "Spill",
    "SystemClock",
    "TakesTools",
    "Tracer",
    "WritesCode",
]
