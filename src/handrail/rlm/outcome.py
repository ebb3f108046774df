"""What a run came to: its answer, or the best that it had when it had to stop."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.core.errors import HandrailError, LimitExceeded, ModelError
from handrail.core.messages import AssistantMessage, Conversation, SupervisorMessage
from handrail.core.redact import redact_text
from handrail.rlm.repl import finals
from handrail.rlm.repl.notebook import Notebook
from handrail.rlm.repl.parse import read_reply
from handrail.rlm.repl.turns import turns_of
from handrail.rlm.values import RLMChatCompletion
from handrail.run.runner import FINALISE


@dataclass(frozen=True, slots=True)
class Ending:
    conversation: Conversation
    error: HandrailError | None
    iterations: int
    seconds: float | None


def answer_in(conversation: Conversation) -> str | None:
    """The final answer of the last question."""
    turns = turns_of(conversation.messages)
    final = turns[-1].ran.final if turns else None
    return None if final is None else final.text


async def partial(completion: RLMChatCompletion, ending: Ending, notebook: Notebook) -> RLMChatCompletion:
    """The completion with the best that there is, and which limit ended the run."""
    completion.partial = True
    match ending.error:
        case ModelError() as error:
            completion.error_type, completion.status_code = error.code, error.status
            completion.error = redact_text(f"the root model failed: {error}")
        case None:
            completion.error_type, completion.error = "limit_exceeded", str(_limit(ending))
        case error:
            completion.error_type, completion.error = "limit_exceeded", str(error)
    completion.response = await _best(ending.conversation, notebook)
    return completion


def _limit(ending: Ending) -> LimitExceeded:
    """The runner stopped by itself: it asked for a last answer after all iterations, or it was out of time."""
    if _last_word(ending.conversation) is None and ending.seconds is not None:
        return LimitExceeded("seconds", ending.seconds)
    return LimitExceeded("iterations", ending.iterations)


async def _best(conversation: Conversation, notebook: Notebook) -> str:
    """What the model said when it was asked for its last word; what it had in `answer`; what it said before that."""
    last = await _read(_last_word(conversation) or "", notebook)
    drafts = (turn.ran.draft for turn in reversed(turns_of(conversation.messages)))
    said = (each.text for each in reversed(conversation.messages) if isinstance(each, AssistantMessage))
    return last or next((draft for draft in drafts if draft.strip()), "") or next((t for t in said if t.strip()), "")


def _last_word(conversation: Conversation) -> str | None:
    match conversation.messages[-2:]:
        case (SupervisorMessage(text=text), AssistantMessage(text=said)) if text == FINALISE:
            return said
    return None


async def _read(text: str, notebook: Notebook) -> str:
    written = read_reply(text)
    if written.final_var is not None:
        found = await notebook.read(finals.as_text(written.final_var), *finals.SEEN)
        if isinstance(found, dict) and found.get("text"):
            return str(found["text"])
    return written.final or text.strip()
