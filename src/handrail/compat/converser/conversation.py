"""A conversation of canisters, a model that converses in them, and the processor that runs their invocations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Literal

from handrail.compat.converser import processor
from handrail.compat.converser.invokers import Ensemble, Invoker
from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.context import Context as CallContext
from handrail.core.events import CallRequested, TextDelta
from handrail.core.jsontext import object_or_text
from handrail.core.messages import (
    AssistantMessage,
    Conversation as Messages,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.ports import Model
from handrail.sessions.llm import LLM


class Role(Enum):
    user = "user"
    assistant = "assistant"
    supervisor = "supervisor"
    document = "document"
    invocation = "invocation"
    result = "result"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class TextualContent:
    text: str


Content = TextualContent


class _Canister:
    _role: ClassVar[Role]

    @property
    def role(self) -> Role:
        return self._role


@dataclass
class UserCanister(_Canister):
    """What the user says."""

    _role = Role.user
    content: Content
    timestamp: datetime = field(default_factory=_now)


@dataclass
class SupervisorCanister(_Canister):
    """What the program tells the model."""

    _role = Role.supervisor
    content: Content
    timestamp: datetime = field(default_factory=_now)


@dataclass
class DocumentCanister(_Canister):
    """A text for the model to work with."""

    _role = Role.document
    content: Content
    name: str = "document"
    timestamp: datetime = field(default_factory=_now)


@dataclass
class AssistantCanister(_Canister):
    """What the model says. Its calls are canisters of their own, which follow."""

    _role = Role.assistant
    content: Content | None = None
    timestamp: datetime = field(default_factory=_now)


@dataclass
class InvocationCanister(_Canister):
    """Tool invocation request from assistant."""

    _role = Role.invocation
    id: str
    name: str
    arguments: dict[str, Any]
    timestamp: datetime = field(default_factory=_now)


@dataclass
class ResultCanister(_Canister):
    """Tool execution result sent back to assistant."""

    _role = Role.result
    invocation_id: str
    content: Content
    timestamp: datetime = field(default_factory=_now)
    error: str | None = None
    """Why the tool failed, if it did."""


Canister = (
    UserCanister | SupervisorCanister | DocumentCanister | AssistantCanister | InvocationCanister | ResultCanister
)


def to_messages(canisters: Iterable[Canister]) -> tuple[Message, ...]:
    """Canisters as the messages of a handrail `Conversation`."""
    names: dict[str, str] = {}
    found: list[Message] = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            names[canister.id] = canister.name
        found.append(_message(canister, names))
    return tuple(found)


def to_canisters(messages: Iterable[Message]) -> Iterator[Canister]:
    """Messages of handrail as canisters."""
    for message in messages:
        yield _canister(message)


def _message(canister: Canister, names: dict[str, str]) -> Message:
    at = round(canister.timestamp.timestamp() * 1000)
    match canister:
        case UserCanister(content=content):
            return UserMessage((Text(content.text),), at)
        case SupervisorCanister(content=content):
            return SupervisorMessage(content.text, at)
        case DocumentCanister(content=content, name=name):
            return DocumentMessage(name, content.text, at)
        case AssistantCanister(content=said):
            return AssistantMessage("" if said is None else said.text, at)
        case InvocationCanister(id=id, name=name, arguments=arguments):
            return InvocationMessage(ToolCall(id, name, arguments), at)
        case ResultCanister(invocation_id=id, content=content, error=error):
            name = names.get(id, "")
            if error is None:
                return ResultMessage(ToolResult(id, name, content.text), at)
            problem = Problem("failed", error)
            return ResultMessage(ToolResult(id, name, content.text, "failed", problem), at)


def _canister(message: Message) -> Canister:
    at = datetime.fromtimestamp(message.at / 1000, UTC) if message.at else _now()
    match message:
        case UserMessage():
            return UserCanister(TextualContent(message.text), at)
        case SupervisorMessage(text=text):
            return SupervisorCanister(TextualContent(text), at)
        case DocumentMessage(name=name, text=text):
            return DocumentCanister(TextualContent(text), name, at)
        case AssistantMessage(text=text):
            return AssistantCanister(TextualContent(text) if text else None, at)
        case InvocationMessage(call=call):
            arguments = object_or_text(call.arguments)
            return InvocationCanister(call.id, call.name, arguments if isinstance(arguments, dict) else {}, at)
        case ResultMessage(result=result):
            problem = result.error.message if result.error is not None else None
            return ResultCanister(result.tool_call_id, TextualContent(result.text), at, problem)


Provider = Literal["anthropic", "openai"]


class Conversation:
    """Canisters in order."""

    def __init__(self, canisters: Iterable[Canister] = ()) -> None:
        self.canisters: list[Canister] = list(canisters)

    def add_canister(self, canister: Canister) -> None:
        self.canisters.append(canister)

    @property
    def messages(self) -> Messages:
        """The messages as a handrail `Conversation`."""
        return Messages(to_messages(self.canisters))


class Converser:
    """A model that is asked in canisters. `ensembles` are what it may call."""

    def __init__(self, model: LLM | Model, ensembles: Iterable[Ensemble] = ()) -> None:
        self._llm = model if isinstance(model, LLM) else LLM(model)
        self._tools = [tool for ensemble in ensembles for tool in ensemble.tools]

    async def converse(self, canisters: Iterable[Canister]) -> list[Canister]:
        """The reply: what the model says, then one canister for each invocation that it asks for. It runs none.

        Raises:
            ModelError: The service failed, or said something unreadable.
        """
        said: list[str] = []
        calls: list[Canister] = []
        asked = Messages(to_messages(canisters))
        async with aclosing(self._llm.stream_async(asked, self._tools)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=piece):
                        said.append(piece)
                    case CallRequested(call=call):
                        given = object_or_text(call.arguments)
                        calls.append(InvocationCanister(call.id, call.name, given if isinstance(given, dict) else {}))
        text = "".join(said)
        return [AssistantCanister(TextualContent(text) if text else None), *calls]


class InvocationsProcessor:
    """`handrail`'s processor for canisters; `aclose()` it after use."""

    def __init__(self, ensembles: Iterable[Ensemble] = (), **options: Any) -> None:
        self._ensembles = {each.name: each for each in ensembles}
        self._inner = processor.InvocationsProcessor(self._ensembles.values(), **options)

    def find_invoker(self, name: str) -> Invoker:
        """Finds an invoker by its name, or as `ensemble:tool`.

        Raises:
            UnknownTool: No enabled tool has that name.
        """
        found = self._inner.find_invoker(name)
        return Invoker.of(found.tool, self._ensembles.get(found.ensemble or ""), found.executor)

    async def execute(
        self, invocations: Iterable[Canister], context: CallContext = CallContext()
    ) -> list[ResultCanister]:
        """Run those that are invocations; the results are in their order, and errors are results."""
        wanted = [each for each in to_messages(invocations) if isinstance(each, InvocationMessage)]
        results = to_canisters(await self._inner.execute_invocations(wanted, context))
        return [each for each in results if isinstance(each, ResultCanister)]

    def nativize(self, canisters: Sequence[Canister], provider: Provider) -> dict[str, Any]:
        """A whole conversation as a provider takes it."""
        return self._inner.nativize(to_messages(canisters), provider)

    def normalize(
        self, native: Mapping[str, Any] | Sequence[Mapping[str, Any]], provider: Provider = "openai"
    ) -> list[Canister]:
        """A provider's messages as canisters. The document's flat messages are read in either dialect.

        Raises:
            UsageError: Something is no message of that provider.
        """
        return list(to_canisters(self._inner.normalize(native, provider)))

    def nativize_invocation(self, invocation: InvocationCanister, provider: Provider) -> dict[str, Any]:
        (message,) = to_messages([invocation])
        assert isinstance(message, InvocationMessage)
        return self._inner.nativize_invocation(message, provider)

    def nativize_result(self, result: ResultCanister, provider: Provider) -> dict[str, Any]:
        (message,) = to_messages([result])
        assert isinstance(message, ResultMessage)
        return self._inner.nativize_result(message, provider)

    async def aclose(self) -> None:
        await self._inner.aclose()
