"""handrail as the README shows it: a `Session` for each job, as a web application has one for each request.

The model and the tools are those of the program; the session is made, asked once and closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.turns.contestants.handrail import history_of
from bench.turns.work import MODEL, PROMPT, Once, Work
from handrail import Limits, Session, create_llm, tool
from handrail.core.ports import Journal
from handrail.run.offering import Offering


@asynccontextmanager
async def opened(work: Work, base_url: str, journal: Journal | Path | None = None) -> AsyncIterator[Once]:
    llm = create_llm("openai", model=MODEL, key="sk-bench", base_url=base_url, stream=work.job.stream)
    tools = [tool(declared.function) for declared in work.tools()]
    limits, offering = Limits(iterations=max(6, work.job.turns + 1)), Offering(most=max(64, work.job.tools))
    begun = history_of(work)

    async def once() -> str:
        async with Session(provider=llm, tools=tools, journal=journal, limits=limits, offering=offering) as session:
            session.conversation = begun
            return (await session.ask_async(PROMPT)).text

    async with llm:
        yield once
