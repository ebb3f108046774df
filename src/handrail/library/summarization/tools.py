"""The tools of the `summarization` ensemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from handrail.core.errors import ToolError
from handrail.core.invocation import Invocation
from handrail.core.ports import Model
from handrail.library.summarization import prompts
from handrail.library.summarization.fold import SummarizationSettings, SummaryFold, SummaryTasks
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import Tool

Length = Literal["sentence", "paragraph", "page"]
_LENGTHS: dict[Length, tuple[str, int]] = {
    # words for the model, and the tokens that they may take
    "sentence": ("one sentence", 120),
    "paragraph": ("one paragraph of at most 150 words", 400),
    "page": ("several paragraphs of at most 600 words in all", 1_600),
}
_ANSWER_TOKENS = 500
Words = Annotated[str, Meta(max_length=2_000)]


class SummaryCost(TypedDict):
    """What it took."""

    pieces: int
    requests: int
    rounds: int
    """Of notes on notes; 0 where the text fitted into one request."""
    cut: int
    """Replies that were cut because they were too long: something may be missing."""
    usage: dict[str, Any]
    """Tokens, and dollars where they are known."""


class Summary(TypedDict):
    summary: str
    cost: SummaryCost


class Summaries(TypedDict):
    summaries: list[str]
    """In the order of the texts."""
    cost: SummaryCost


class SummaryAnswer(TypedDict):
    answer: str
    cost: SummaryCost


@dataclass(frozen=True, slots=True)
class _Summarizer:
    model: Callable[[], Model]
    settings: SummarizationSettings

    async def summarize_text(
        self, text: str, invocation: Invocation, instructions: Words = "", length: Length = "paragraph"
    ) -> Summary:
        """Summarise a text of any length.

        Args:
            text: The whole text.
            instructions: What matters most in it, and how the summary should be.
            length: How long the summary should be.
        """
        fold = self._fold(invocation, text)
        return Summary(summary=await fold.fold(text, _summary(instructions, length)), cost=_cost(fold))

    async def summarize_pieces(
        self,
        texts: Annotated[list[str], Meta(min_length=1, max_length=100)],
        invocation: Invocation,
        instructions: Words = "",
        length: Length = "sentence",
    ) -> Summaries:
        """Summarise several texts, each by itself.

        Args:
            texts: The texts.
            instructions: What matters most in them, and how the summaries should be.
            length: How long each summary should be.
        """
        fold = self._fold(invocation, *texts)
        return Summaries(summaries=await fold.each(texts, _summary(instructions, length)), cost=_cost(fold))

    async def answer_from_text(self, text: str, question: Words, invocation: Invocation) -> SummaryAnswer:
        """Answer a question from a text of any length, and from nothing else.

        Args:
            text: The whole text.
            question: What is asked about it.
        """
        if not question.strip():
            raise ToolError("EMPTY", "there is no question; ask something about the text")
        fold = self._fold(invocation, text)
        return SummaryAnswer(answer=await fold.fold(text, _question(question)), cost=_cost(fold))

    def _fold(self, invocation: Invocation, *texts: str) -> SummaryFold:
        most, there = self.settings.most, sum(map(len, texts))
        if not all(text.strip() for text in texts):
            raise ToolError("EMPTY", "there is no text in it; give the text itself")
        if there > most:
            raise ToolError("TOO_LONG", f"there are {there:,} characters and at most {most:,} are taken; give a part")
        return SummaryFold(self.model(), self.settings, invocation.progress)


def summarization_ensemble(
    model: Model | Callable[[], Model], settings: SummarizationSettings = SummarizationSettings()
) -> Ensemble:
    """Make the group of tools. If `model` is a function, each call calls it when it first needs a model."""
    giver: Any = (lambda: model) if hasattr(model, "stream") else model
    summarizer = _Summarizer(giver, settings)
    handlers = (summarizer.summarize_text, summarizer.summarize_pieces, summarizer.answer_from_text)
    return Ensemble("summarization", [_tool(handler, settings.timeout) for handler in handlers])


def _tool(handler: Callable[..., Any], timeout: float) -> Tool:
    return Tool.from_function(
        handler, side_effects=False, idempotent=True, timeout=timeout, tags=("summarization", "model")
    )


def _summary(instructions: str, length: Length) -> SummaryTasks:
    wanted, tokens = _LENGTHS[length]
    return SummaryTasks(
        whole=prompts.whole_text_task(wanted, instructions),
        part=lambda at, count: prompts.part_task(at, count, instructions),
        fewer=prompts.shorten_notes_task(instructions),
        together=prompts.combine_task(wanted, instructions),
        tokens=tokens,
    )


def _question(question: str) -> SummaryTasks:
    return SummaryTasks(
        whole=prompts.answer_task(question),
        part=lambda at, count: prompts.findings_task(at, count, question),
        fewer=prompts.shorten_notes_task(f"what helps to answer: {question}"),
        together=prompts.combined_answer_task(question),
        tokens=_ANSWER_TOKENS,
        keeps=lambda note: prompts.NOTHING not in note[:40],
    )


def _cost(fold: SummaryFold) -> SummaryCost:
    return SummaryCost(
        pieces=fold.pieces,
        requests=fold.requests,
        rounds=fold.rounds,
        cut=fold.cut,
        usage=msgspec.to_builtins(fold.usage),
    )
