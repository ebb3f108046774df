"""Measure the embedded model: `python -m tests.models.local.score`. The table is in docs/local-model.md."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from handrail.core.events import CallRequested, TextDelta
from handrail.core.jsontext import parse_object
from handrail.core.model_request import ModelRequest
from handrail.models.local.model import LocalModel, arguments_fit, create_local
from handrail.sessions.store.embedding import WordLlamaEmbedder
from tests.models.local.measured_requests import AFTER, CASES, ONE, Case, answered, asked, right, right_names


async def calls_of(model: LocalModel, request: ModelRequest) -> list[CallRequested]:
    return [event async for event in model.stream(request) if isinstance(event, CallRequested)]


async def score(model: LocalModel, cases: Sequence[Case], **settings: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        events = await calls_of(model, asked(case, **settings))
        calls = [(event.call.name, parse_object(str(event.call.arguments))) for event in events]
        offers = {tool.name: tool for tool in case.tools}
        counts[f"{case.kind} asked"] += 1
        counts[f"{case.kind} names"] += right_names(case, calls)
        counts[f"{case.kind} right"] += right(case, calls)
        counts["calls"] += len(calls)
        counts["calls that fit"] += sum(arguments_fit(offers[event.call.name], event.call) for event in events)
        if not right(case, calls):
            sys.stderr.write(f"{case.kind}: {case.said!r} -> {calls}\n")
    return counts


async def facts(model: LocalModel) -> int:
    """How many answers after a result have the fact in them."""
    found = 0
    for said, name, arguments, result, fact in AFTER:
        events = [event async for event in model.stream(answered(said, name, arguments, result))]
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        found += fact in text
        sys.stderr.write(f"after: {said!r} -> {text!r}\n")
    return found


async def main() -> None:
    async with create_local(embedder=WordLlamaEmbedder) as model:
        rounds: tuple[tuple[Sequence[Case], dict[str, Any]], ...] = (
            (CASES, {}),
            (ONE, {"tool_choice": "required"}),
        )
        for cases, settings in rounds:
            begun = time.monotonic()
            counts = await score(model, cases, max_tokens=64, **settings)
            seconds = (time.monotonic() - begun) / len(cases)
            sys.stdout.write(f"{settings} {seconds:.2f} s each {dict(counts)}\n")
        sys.stdout.write(f"facts after a result: {await facts(model)} of {len(AFTER)}\n")


if __name__ == "__main__":
    asyncio.run(main())
