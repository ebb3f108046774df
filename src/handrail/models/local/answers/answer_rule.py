"""The rule for what the embedded model says while tools are in the conversation.

| the reply comes after                     | what is said                                                     |
|-------------------------------------------|------------------------------------------------------------------|
| results of this question                  | the model's sentence if it reports one plainly, else the results |
| "what can you do?"                        | the tools                                                        |
| words that state what nobody said         | that it does not know, and the tools                             |
| words that say something was done         | the latest results as they are, or that it does not know         |
| words that repeat earlier results         | those results as they are                                        |
| any other words                           | the model's words                                                |

So no number, name or date is said that is in neither a result nor a question.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    UserMessage,
)
from handrail.core.model_request import ModelRequest
from handrail.models.local.answers.claims import AnswerEvidence, stated_tokens
from handrail.models.local.answers.phrases import ACTION_DONE, LanguagePhrases, language_of
from handrail.models.local.answers.plausibility import is_plausible
from handrail.models.local.answers.result_text import SettledCall, list_tools, render_results, tool_label

Answers = Literal["bound", "free"]
"""`bound_answer` holds what the model says to the results and the question; `free` leaves it as the model wrote it."""
LONGEST = 300
"""Characters of a reply after a result, from which on it is no sentence that could be kept."""


_WORD = re.compile(r"[^\W\d_]{2}")


class BoundAnswer(Struct, frozen=True):
    text: str
    dropped: str = ""
    """What the model stated without any ground, if that is why it says something else."""


def answer_rule_applies(request: ModelRequest) -> bool:
    """Whether the rule applies: tools are offered or were called, and no structured reply is wanted."""
    called = any(isinstance(message, ResultMessage) for message in request.messages)
    return (called or bool(request.tools)) and request.response_schema is None


def follows_result(request: ModelRequest) -> bool:
    """Whether a call of this question has been answered."""
    return bool(_rounds(request.messages)[-1])


def answer_about_tools(request: ModelRequest) -> BoundAnswer | None:
    """The answer to "what can you do?", which needs no model; None to any other question."""
    question, (*_, latest) = _question(request.messages), _rounds(request.messages)
    words = _language(request.messages)
    if latest or not request.tools or not words.about_itself.fullmatch(question):
        return None
    return BoundAnswer(list_tools(words.tools, request.tools, words))


def without_tool_lists(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The conversation without questions about the tools: a small model takes their answer, a list, for a result."""
    kept: list[Message] = []
    answered_here = False
    for message in messages:
        if isinstance(message, UserMessage):
            answered_here = bool(language_of(message.text).about_itself.fullmatch(message.text))
        if not answered_here or isinstance(message, SupervisorMessage | DocumentMessage):
            kept.append(message)
    return tuple(kept)


def bound_answer(request: ModelRequest, written: str) -> BoundAnswer:
    """What is said in place of what the model wrote; often the same."""
    written = written.strip()
    question, words = _question(request.messages), _language(request.messages)
    *earlier, latest = _rounds(request.messages)
    if latest:
        return _report(latest, question, written, words)
    stated = [claim for claim in stated_tokens(written) if not AnswerEvidence([question]).has(claim)]
    done = ACTION_DONE.search(written)
    evidence = AnswerEvidence(_texts(request) if stated else ())
    groundless = [claim for claim in stated if not evidence.has(claim)]
    last = next((settled for settled in reversed(earlier) if settled), None)
    if done and last is None:
        groundless.append(done.group())
    if not stated and not _WORD.search(written):
        groundless.append(written)
    if groundless:
        return BoundAnswer(_unknown(request, words), groundless[0])
    from_results = AnswerEvidence(one.result.text for settled in earlier for one in settled)
    if last is not None and (done or any(from_results.has(claim) for claim in stated)):
        return BoundAnswer(render_results(last, words))
    return BoundAnswer(written)


def _report(settled: list[SettledCall], question: str, written: str, words: LanguagePhrases) -> BoundAnswer:
    if len(settled) == 1 and settled[0].result.outcome == "ok":
        (one,) = settled
        if is_plausible(written, question, one, words):
            return BoundAnswer(written)
    return BoundAnswer(render_results(settled, words))


def _unknown(request: ModelRequest, words: LanguagePhrases) -> str:
    return list_tools(f"{words.unknown} {words.tools}", request.tools, words) if request.tools else words.unknown


def _question(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")


def _language(messages: tuple[Message, ...]) -> LanguagePhrases:
    """The language of the question, or of the last thing the person said that shows one."""
    return language_of(*(message.text for message in reversed(messages) if isinstance(message, UserMessage)))


def _rounds(messages: tuple[Message, ...]) -> list[list[SettledCall]]:
    """The calls and results of each question, of the last one too; an empty list where nothing was called."""
    rounds: list[list[SettledCall]] = [[]]
    calls = {}
    for message in messages:
        match message:
            case UserMessage():
                rounds.append([])
            case InvocationMessage(call=call):
                calls[call.id] = call
            case ResultMessage(result=result) if result.tool_call_id in calls:
                rounds[-1].append(SettledCall(calls[result.tool_call_id], result))
            case _:
                pass
    return rounds


def _texts(request: ModelRequest) -> list[str]:
    """Everything that was said to the model or returned to it; not what it said itself."""
    found = [f"{tool_label(tool.name)} {tool.description}" for tool in request.tools]
    for message in request.messages:
        match message:
            case UserMessage(text=text) | SupervisorMessage(text=text) | DocumentMessage(text=text):
                found.append(text)
            case InvocationMessage(call=call):
                found.append(str(call.arguments))
            case ResultMessage(result=result):
                found.append(result.text)
            case AssistantMessage():
                pass
    return found
