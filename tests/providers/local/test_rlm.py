"""The embedded model as the one that code asks: a context of any size, offline."""

from __future__ import annotations

import asyncio
from pathlib import Path

from handrail import RLM
from handrail.providers.local.model import LocalModel
from handrail.rlm.plan import Plan

NEEDLE = "The lighthouse was sold to Marta Quist in 1911."


async def test_a_question_over_a_long_text_is_answered_by_the_embedded_model(local: LocalModel, tmp_path: Path) -> None:
    line = "All work and no play makes a long and dull text, and there is much of it.\n"
    (tmp_path / "hay.txt").write_text(line * 60_000 + NEEDLE + "\n" + line * 20_000)
    async with asyncio.timeout(120), RLM(Plan("Who bought the lighthouse?"), other_backends=[local]) as rlm:
        found = await rlm.acompletion(tmp_path / "hay.txt", "Who bought the lighthouse?")

    assert found.error is None and NEEDLE in found.response
    used = found.usage_summary.model_usage_summaries["local"]
    assert (used.total_calls or 0) >= 1 and (used.total_output_tokens or 0) > 0
