"""A typed answer: how a run asks for it, and which reply of a conversation is one.

| the service holds a reply to a schema | what is asked for                                | what is read          |
|---------------------------------------|--------------------------------------------------|-----------------------|
| yes, also beside the tools offered    | a reply by the schema (`response_schema`)        | the text of the reply |
| no                                    | a call of `final_answer`, offered beside the tools | its arguments         |

Either way the answer is checked here. What does not fit is refused, as a result of the call or as a word of the
program, and the model answers again. All of that is in the conversation and on record, so what an answer is and how
often one was refused follow from the conversation alone, and a run that is taken up goes on as if nothing had happened.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.errors import InvalidAnswer, InvalidArguments, UsageError
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
)
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.run.planning import is_plan
from handrail.tools.answer_type import AnswerType, answer_type

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

ANSWER_TOOL = "final_answer"
ACCEPTED = "The answer was accepted."
"""The result of a call that gave the answer."""
_NAME = re.compile(rf"{ANSWER_TOOL}(_[0-9]+)?")
_DESCRIPTION = "Give the final answer. Call this instead of answering in words, alone, when everything else is done."
_FINAL_STOPS = {"refusal": "it refused to answer", "content_filter": "its answer was held back by a filter"}
"""A reply that ended so will not be another one when the model is asked again."""
_SHOWN = 200
"""Characters of a refusal, in the error."""

Route = Literal["schema", "tool"]


def answer_of(conversation: Conversation, returns: TypeForm[T]) -> T:
    """The typed answer with which a run ended, read from its conversation.

    Raises:
        InvalidAnswer: The conversation does not end with an answer of this type.
        InvalidDefinition: The type has no JSON form.
    """
    type = answer_type(returns)
    if type is None:
        text: Any = conversation.text
        return text  # type: ignore[no-any-return]  # the type is `str`
    return read_answer(conversation.messages, type)


def read_answer(messages: Sequence[Message], type: AnswerType[T]) -> T:
    """
    Raises:
        InvalidAnswer: The messages do not end with an answer of this type.
    """
    given = _given(messages)
    if given is None:
        raise InvalidAnswer(["no answer was given"])
    try:
        return type.read_text(given.text) if isinstance(given, AssistantMessage) else type.read_arguments(given)
    except InvalidArguments as error:
        raise InvalidAnswer(error.problems, answer_text(messages)) from error


def answer_text(messages: Sequence[Message]) -> str:
    """The answer as the model wrote it: the text of its reply, or the arguments of its call as JSON."""
    match given := _given(messages):
        case AssistantMessage():
            return given.text
        case dict():
            return msgspec.json.encode(given).decode()
    return given or ""


def ends_with_answer_call(messages: Sequence[Message]) -> bool:
    """Whether the last thing in a conversation is a call that gave a typed answer, of whatever type."""
    return bool(messages) and isinstance(messages[-1], ResultMessage) and _given(messages) is not None


def results_of_tools(messages: Iterable[Message], tools: Container[str]) -> tuple[ToolResult, ...]:
    """The results of calls, without those by which the model gave a typed answer or a plan: they did nothing."""
    found = (message.result for message in messages if isinstance(message, ResultMessage))
    return tuple(each for each in found if each.name in tools or not (_NAME.fullmatch(each.name) or is_plan(each)))


def _given(messages: Sequence[Message]) -> AssistantMessage | dict[str, Any] | str | None:
    """The last reply if it is in words, or the arguments of the call that was accepted as the answer."""
    accepted = ""
    for message in reversed(messages):
        match message:
            case ResultMessage(result=result):
                if _NAME.fullmatch(result.name) and not result.is_error and result.content == ACCEPTED:
                    accepted = result.tool_call_id
            case InvocationMessage(call=call):
                if call.id == accepted:
                    return call.arguments
            case AssistantMessage() if message is messages[-1]:
                return message
            case _:
                return None
    return None


class RunAnswer(Generic[T]):
    """The typed answer that one run is to end with, and how often the model has got it wrong."""

    def __init__(self, type: AnswerType[T], route: Route, taken: Container[str], allowed: int, *, alone: bool) -> None:
        """`taken` are the names of tools; `alone` says that the answer is the only call that the model can make."""
        self.type = type
        self.route = route
        self.name = _free_name(taken)
        self._allowed = allowed
        self._alone = alone
        self._keeps_choice = True
        """Whether the model calls the tool that it is told to call, as far as is known."""
        self.refused: int = 0

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        """The tool that takes the answer, if one does."""
        return (ToolOffer(self.name, _DESCRIPTION, self.type.schema),) if self.route == "tool" else ()

    @property
    def finalise(self) -> str:
        how = f"now, by calling {self.name!r}" if self.route == "tool" else "now, without calling tools"
        return f"The limit of tool calls is reached. Give your answer {how}."

    def take_stock(self, messages: Sequence[Message]) -> None:
        """Count the answers that were refused, in the messages since the user last spoke."""
        for before, message in zip((None, *messages), messages, strict=False):
            if isinstance(message, SupervisorMessage) and isinstance(before, AssistantMessage):
                self.refused += 1
        replies = 0  # several answers in one reply are one try
        for message in messages:
            replies = 0 if isinstance(message, AssistantMessage) else replies
            if isinstance(message, ResultMessage) and message.result.is_error and message.result.name == self.name:
                self.refused += not replies
                replies += 1

    def is_given(self, messages: Sequence[Message]) -> bool:
        try:
            read_answer(messages, self.type)
        except InvalidAnswer:
            return False
        return True

    def choice(self, messages: Sequence[Message]) -> ToolChoice:
        """A model that can only answer, or that has just answered in words, is told to call the tool."""
        match messages[-2:]:
            case [AssistantMessage(), SupervisorMessage()]:
                has_answered = True
            case _:
                has_answered = False
        must = self.route == "tool" and (self._alone or has_answered)
        return NamedTool(self.name) if must and self._keeps_choice else "auto"

    def broke_choice(self) -> None:
        """The model called nothing, or something else, when it was told to answer by a call."""
        self._keeps_choice = False

    def problems(self, message: AssistantMessage) -> tuple[str, ...]:
        """What is wrong with a reply in words, as an answer; empty if nothing is."""
        try:
            self.type.read_text(message.text)
        except InvalidArguments as error:
            return (*error.problems, "the reply was cut off") if message.stop == "max_tokens" else error.problems
        return ()

    def refuse(self, problems: Sequence[str], text: str, stop: str = "end") -> None:
        """Count an answer that does not fit.

        Raises:
            InvalidAnswer: The model has no more tries, or refused to answer.
        """
        self.refused += 1
        if why := _FINAL_STOPS.get(stop):
            said = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            raise InvalidAnswer([f"{why}: {said}" if said else why], text, tries=self.refused)
        if self.refused >= self._allowed:
            raise InvalidAnswer(problems, text, tries=self.refused)

    def check_tries(self, messages: Sequence[Message]) -> None:
        """
        Raises:
            InvalidAnswer: A run that is taken up had no more tries.
        """
        if self.refused >= self._allowed:
            results = [message.result for message in messages if isinstance(message, ResultMessage)]
            problems = [result.text for result in results[-1:] if result.name == self.name]
            raise InvalidAnswer(problems or ["it had no more tries"], tries=self.refused)

    def word(self, problems: Sequence[str]) -> str:
        """What the model is told of an answer in words that does not fit."""
        if self.route == "tool":
            return f"That is not the answer yet. Give your answer by calling {self.name!r}."
        listed = "\n".join(f"- {problem}" for problem in problems)
        return (
            f"Your answer does not fit what was asked for:\n{listed}\nReply with the whole answer again, as JSON only."
        )


def is_answer_tool(name: str) -> bool:
    """Whether the tool of this name takes a typed answer."""
    return _NAME.fullmatch(name) is not None


def _free_name(taken: Container[str]) -> str:
    name, count = ANSWER_TOOL, 2
    while name in taken:
        name, count = f"{ANSWER_TOOL}_{count}", count + 1
    return name


def checked_type(returns: Any) -> AnswerType[Any] | None:
    """What a caller gave as the type of the answer.

    Raises:
        InvalidDefinition: The type has no JSON form.
        UsageError: It is a value and no type.
    """
    if returns is None or isinstance(returns, AnswerType):
        return returns
    if isinstance(returns, dict):
        raise UsageError("returns= takes a type; give a JSON Schema as response_schema= to create_llm or LLM")
    return answer_type(returns)
