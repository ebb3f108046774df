"""handrail as it comes, without a journal. All tools are offered in every turn, as the others do it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.turns.work import MODEL, PROMPT, SYSTEM, Once, Work
from handrail import Context, Conversation, Executor, Limits, Runner, ToolCall, ToolResult, create_llm, tool
from handrail.core.ids import new_id
from handrail.core.messages import AssistantMessage, InvocationMessage, ResultMessage
from handrail.core.ports import Journal
from handrail.run.offering import Offering


@asynccontextmanager
async def opened(
    work: Work, base_url: str, journal: Journal | None = None, offering: Offering | None = None
) -> AsyncIterator[Once]:
    llm = create_llm("openai", model=MODEL, key="sk-bench", base_url=base_url, stream=work.job.stream)
    offering = offering or Offering(most=max(64, work.job.tools))
    executor = Executor([tool(declared.function) for declared in work.tools()], journal=journal)
    runner = Runner(llm.model, executor, Limits(iterations=max(6, work.job.turns + 1)), offering=offering)
    begun = history_of(work).say(PROMPT)

    async def once() -> str:
        context = Context(run=new_id("run"))
        conversation = await runner.run(begun, context)
        await executor.finish(context.run)
        return conversation.text

    async with llm, executor:
        yield once


def history_of(work: Work) -> Conversation:
    conversation = Conversation().supervised(SYSTEM)
    for said in work.history():
        match said:
            case {"role": "user", "content": text}:
                conversation = conversation.say(text)
            case {"role": "assistant", "tool_calls": [call]}:
                conversation = conversation.add(AssistantMessage(), InvocationMessage(ToolCall.from_dict(call)))
            case {"role": "tool", "tool_call_id": identity, "content": text}:
                conversation = conversation.add(ResultMessage(ToolResult(identity, "note", text)))
            case {"role": "assistant", "content": text}:
                conversation = conversation.add(AssistantMessage(text))
    return conversation
