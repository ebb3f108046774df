"""handrail as it comes with many tools: a local search offers the few that fit."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from bench.turns.contestants import handrail as without
from bench.turns.work import Once, Work
from handrail.run.offering import Offering


def opened(work: Work, base_url: str) -> AbstractAsyncContextManager[Once]:
    return without.opened(work, base_url, offering=Offering())
