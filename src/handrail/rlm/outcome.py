"""What a run came to: its answer, or the best that it had when it had to stop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from handrail.core.errors import HandrailError, LimitExceeded, ModelError
from handrail.core.messages import AssistantMessage, Conversation, Message, SupervisorMessage, UserMessage
from handrail.core.redact import redact_text
from handrail.rlm.query.single_query import WAITING
from handrail.rlm.repl import final_answers
from handrail.rlm.repl.notebook import ReplNotebook
from handrail.rlm.repl.reply_parser import is_only_code, read_reply
from handrail.rlm.repl.turns import turns_of
from handrail.rlm.values import RLMChatCompletion
from handrail.run.code.notebook import InterpreterLost
from handrail.run.history import unanswered_calls
from handrail.run.single_run import FINALISE

_WAITS = "a call of its code waits for a person's approval; give it, and resume the run"


@dataclass(frozen=True, slots=True)
class RlmRunEnding:
    conversation: Conversation
    error: HandrailError | None
    iterations: int
    seconds: float | None


def answer_in(conversation: Conversation) -> str | None:
    """The final answer of the last question."""
    turns = turns_of(conversation.messages)
    final = turns[-1].ran.final if turns else None
    return None if final is None else final.text


def conversation_to_resume(conversation: Conversation, iterations: int) -> Conversation:
    """The conversation of a run that is taken up: without half a reply, which its time had cut, and without its last
    word, if it may have more turns now."""
    messages = conversation.messages
    if answer_in(conversation) is not None:
        return conversation
    upto = len(messages) - isinstance(messages[-1] if messages else None, AssistantMessage)
    if upto and _is_last_call(messages[upto - 1]):
        return conversation if len(turns_of(messages)) >= iterations else conversation.upto(upto - 1)
    return conversation.upto(upto)


def _is_last_call(message: Message) -> bool:
    return isinstance(message, SupervisorMessage) and message.text == FINALISE


def is_waiting_for_person(conversation: Conversation) -> bool:
    """Whether the run pauses at a call that needs a person's approval: its code has no result then."""
    return bool(unanswered_calls(conversation))


async def partial_completion(
    completion: RLMChatCompletion, ending: RlmRunEnding, notebook: ReplNotebook
) -> RLMChatCompletion:
    """The completion with the best that there is, and which limit ended the run, or that it waits."""
    completion.partial = True
    completion.response = await _best(ending.conversation, notebook)
    match ending.error:
        case ModelError() as error:
            completion.error_type, completion.status_code = error.code, error.status
            completion.error = redact_text(f"the root model failed: {error}")
        case None if is_waiting_for_person(ending.conversation):
            completion.error_type, completion.error = WAITING, _WAITS
            completion.response = _draft(ending.conversation)
        case None:
            completion.error_type, completion.error = "limit_exceeded", str(_limit(ending))
        case error:
            completion.error_type, completion.error = "limit_exceeded", str(error)
    return completion


def _limit(ending: RlmRunEnding) -> LimitExceeded:
    """The runner stopped by itself: it asked for a last answer after all iterations, or it was out of time."""
    if _text_after_last_call(ending.conversation) is None and ending.seconds is not None:
        return LimitExceeded("seconds", ending.seconds)
    return LimitExceeded("iterations", ending.iterations)


async def _best(conversation: Conversation, notebook: ReplNotebook) -> str:
    """What the model said when it was asked for its last word; what it had in `answer`; what it said without code."""
    last = await _read(_text_after_last_call(conversation) or "", notebook)
    answering = takewhile(lambda each: not isinstance(each, UserMessage), reversed(conversation.messages))
    said = (each.text for each in answering if isinstance(each, AssistantMessage))
    words = (text for text in said if text.strip() and not read_reply(text).blocks)
    return last or _draft(conversation) or next(words, "")


def _draft(conversation: Conversation) -> str:
    """What its code had in `answer` last."""
    drafts = (turn.ran.draft for turn in reversed(turns_of(conversation.messages)))
    return next((draft for draft in drafts if draft.strip()), "")


def _text_after_last_call(conversation: Conversation) -> str | None:
    match conversation.messages[-2:]:
        case (before, AssistantMessage(text=said)) if _is_last_call(before):
            return said
    return None


async def _read(text: str, notebook: ReplNotebook) -> str:
    written = read_reply(text)
    if written.final_var is not None:
        found = None
        with suppress(InterpreterLost):
            found = await notebook.read(final_answers.as_text(written.final_var), *final_answers.SEEN)
        if isinstance(found, dict) and found.get("text"):
            return str(found["text"])
    # Code alone is no answer: nothing runs it any more.
    return written.final or ("" if is_only_code(text) else text.strip())
