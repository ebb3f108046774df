"""What models were used for, as a report shows it."""

from __future__ import annotations

from handrail.rlm.values import UsageSummary


def usages(**of_models: tuple[float | None, ...]) -> UsageSummary:
    """By model: its calls, the tokens it read and wrote, and their cost."""
    fields = ("total_calls", "total_input_tokens", "total_output_tokens", "total_cost")
    return UsageSummary.from_dict(
        {
            "model_usage_summaries": {
                name: dict(zip(fields, numbers, strict=False)) for name, numbers in of_models.items()
            }
        }
    )
