"""What a model is told of a call whose words come from outside, where a policy gives it handles for them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from handrail.core.calls import Output, Problem, ResultLabels, ToolResult, WithheldWords
from handrail.core.invocation import BeginRun
from handrail.execute.attempt import CallAttempt
from handrail.execute.handles.withheld_words import (
    EXTRACTED,
    labels_with_extract,
    with_extract,
    withhold,
    words_for_reader,
)
from handrail.execute.policy import Policy
from handrail.tools.tool import Tool


class WordsReader(Protocol):
    """A reader of the words that the model of a run is not shown."""

    async def read(self, begin_run: BeginRun, source: str, words: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Plain values that fit the schema, as the words have them; None if that failed."""
        ...


def is_withheld(attempt: CallAttempt, policy: Policy) -> bool:
    """Whether the model is given handles for what this call gives. What agents and code say was made of handles."""
    tool = attempt.tool
    if policy.flows.untrusted_results != "handles" or tool is None or tool.replays or tool.begins_runs:
        return False
    return bool(tool.definition.untrusted) or attempt.quotes or attempt.is_outside


async def split_output(
    attempt: CallAttempt, tool: Tool, output: Output, *, late: bool = False
) -> tuple[Output, tuple[WithheldWords, ...]]:
    """The output as the model is shown it, and the words that it is not shown.

    A tool that was given such words may repeat them anywhere. Of what comes `late` nothing is extracted.
    """
    place = f"{attempt.recorder.run}\n{attempt.call.id}"
    labels = ResultLabels(True, (), tool.definition.own) if attempt.quotes else attempt.labels
    shown, withheld = withhold(output.output, tool.definition, place, labels)
    told = _counted(len(output.warnings), "warning") + _counted(len(output.attachments), "attachment")
    extract = tool.definition.extract
    reader: WordsReader | None = attempt.context.words_reader
    if withheld and extract is not None and reader is not None and not late:
        begin_run = partial(attempt.owner.begin_run, attempt)
        try:
            found = await reader.read(begin_run, tool.scoped_name, words_for_reader(withheld), extract)
        except asyncio.CancelledError:  # the tool ran: who goes away does not wait for the extract
            attempt.cancelled = True
            found = None
        if found is not None:
            shown = with_extract(shown, found)
    if told:
        withheld = (*withheld, WithheldWords("", "", "; ".join(told)))
    return Output(shown, told), withheld


def told_failure(attempt: CallAttempt, result: ToolResult) -> ToolResult:
    """The result of a call that failed, without what its tool said: that comes from outside too. What is wrong with
    arguments that words were put into may repeat them."""
    is_of_tool = attempt.ran or (attempt.quotes and result.outcome in ("failed", "invalid_arguments"))
    if result.outcome in ("ok", "needs_confirmation") or not is_of_tool:
        return result
    said = WithheldWords("", "", result.text)
    words = (
        f"{result.name!r} gave no result ({result.outcome}); what it said comes from outside and is not shown to you"
    )
    return replace(result, content=words, error=Problem("failed", words), warnings=(), attachments=(), withheld=(said,))


def labels_of(attempt: CallAttempt, result: ToolResult) -> ResultLabels | None:
    """What is declared about the fields of a result."""
    tool = attempt.tool
    if tool is None or result.outcome != "ok":
        return None
    labels = tool.labels if attempt.labels is None else attempt.labels
    if attempt.quotes:
        labels = ResultLabels(True, tool.definition.private, tool.definition.own)
    has_extract = result.withheld and isinstance(result.content, dict) and EXTRACTED in result.content
    return labels_with_extract(labels) if has_extract else labels


def _counted(number: int, what: str) -> tuple[str, ...]:
    return (f"{number} {what}{'' if number == 1 else 's'} of the tool not shown",) if number else ()
