"""What a tool may ask the MCP client of its call while it runs, and tell it.

A handler finds it in its invocation: `client = ClientAsk.of(invocation)`. It can ask a
person by a form, ask the client's model, ask for the roots, and send log messages. The
same words work in both eras of the protocol. To a client that shakes hands the question
is sent at once. To a stateless one the request is answered `input_required`; the handler
waits where it is, and goes on when the client comes back with the answers. So a handler
runs once, and what it did before it asked is not done again. While an async tool waits for
an answer its own time does not run, and it takes nobody's place; after `PATIENCE` nobody
waits any more. In a task the questions stand in the task. A tool that asks is made with
`share=False`: else an identical call in flight would get the answers of another person.

Only JSON and values of ours are here; `ask_wire.py` puts them into the SDK's types.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct, field

from handrail.core.context import LiveObject
from handrail.core.errors import ToolError, UsageError
from handrail.core.invocation import Invocation
from handrail.core.timeouts import time_limit
from handrail.tools.schema.validator import Validator

KEY = "mcp_client"
"""The place of the client's questions in the invocation's `auxdata`."""

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
T = TypeVar("T")
PATIENCE = 300.0
"""Seconds that a call waits for an answer, if it is not a task."""


class ElicitQuestion(Struct, frozen=True, kw_only=True):
    """A form for the person at the client, or an address to visit."""

    message: str
    form: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """A flat schema: an object of texts, numbers, booleans and choices."""
    url: str | None = None


class SampleQuestion(Struct, frozen=True, kw_only=True):
    """Something for the client's model to answer."""

    prompt: str
    system: str = ""
    max_tokens: int = 1_000


class RootsQuestion(Struct, frozen=True):
    """A request for the folders in which the client works."""


class PassedQuestion(Struct, frozen=True, kw_only=True):
    """A request of another server, for the client as it came."""

    method: str
    params: dict[str, Any]


Question = ElicitQuestion | SampleQuestion | RootsQuestion | PassedQuestion


class ElicitAnswer(Struct, frozen=True):
    action: Literal["accept", "decline", "cancel"]
    values: dict[str, Any] = field(default_factory=dict)


class SampleAnswer(Struct, frozen=True):
    text: str
    model: str = ""


class RootsAnswer(Struct, frozen=True):
    uris: tuple[str, ...]


class PassedAnswer(Struct, frozen=True):
    """What the client said to it, as it came."""

    result: dict[str, Any]


Answer = ElicitAnswer | SampleAnswer | RootsAnswer | PassedAnswer

NEEDS: Mapping[type, str] = {ElicitQuestion: "elicitation", SampleQuestion: "sampling", RootsQuestion: "roots"}
"""What a client must have declared to be asked."""


class McpRequestRefused(ToolError):
    """The whole request is answered with a protocol error, not with a result. The code of a JSON-RPC error is in it."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(REFUSED, message)
        self.rpc_code = code
        self.data = data


REFUSED = "mcp_refused"
MISSING_CAPABILITY = -32021


class QuestionLine(Protocol):
    """Sends questions to the client and returns its answers."""

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        """Return when all of them are answered.

        Raises:
            ToolError: The client refused, or is gone.
        """
        ...


class ClientBehindCall(Protocol):
    """The client of a call, for a handler that passes the call on to another MCP server."""

    @property
    def who(self) -> object:
        """Equal for calls of one client, and for no others."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the client wrote into `_meta` of the call, for the server that answers it."""
        ...

    def keep(self, call_id: str, value: Any, result: dict[str, Any]) -> None:
        """The server's own result of this call, and the value that it has for us."""
        ...

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell the client something beside the answer, as it came from the server."""
        ...


class ClientAsk(LiveObject):
    """The client of one call, as its handler sees it."""

    def __init__(
        self,
        line: QuestionLine,
        *,
        capabilities: frozenset[str] = frozenset(),
        log: Callable[[Level, Any, str], Awaitable[None]] | None = None,
        pause: Callable[[], Awaitable[None]] | None = None,
        detach: Callable[[], None] | None = None,
        patience: Callable[[], float | None] = lambda: PATIENCE,
        behind: ClientBehindCall | None = None,
    ) -> None:
        self.behind = behind
        """What is passed between the client and a server behind us; None for who does not stand between two."""
        self.capabilities = capabilities
        """What the client can be asked for: `elicitation`, `sampling`, `roots`; and `tasks`."""
        self.refused: McpRequestRefused | None = None
        """The last refusal that a handler was given; it is the answer if the handler let it pass."""
        self._line = line
        self._log = log
        self._pause = pause
        self._detach = detach
        self._patience = patience
        self._invocation: Invocation | None = None
        self._asked = 0
        self._loop = asyncio.get_running_loop()

    @classmethod
    def of(cls, invocation: Invocation) -> ClientAsk:
        """The client that made this call.

        Raises:
            UsageError: The call did not come from an MCP client.
        """
        found = invocation.auxdata.get(KEY)
        if not isinstance(found, cls):
            raise UsageError(f"{invocation.tool_name!r} asks its MCP client, and this call did not come from one")
        found._invocation = invocation
        return found

    def can(self, *names: str) -> bool:
        return self.capabilities.issuperset(names)

    def require(self, *names: str) -> None:
        """Go on only with a client that declared all of these.

        Raises:
            Refused: It did not; the client is told what is missing, as the protocol wants it.
        """
        if missing := [name for name in names if name not in self.capabilities]:
            raise self.refuse(
                MISSING_CAPABILITY,
                f"this call needs a client that can do {', '.join(missing)}",
                {"requiredCapabilities": {name: {} for name in missing}},
            )

    def refuse(self, code: int, message: str, data: dict[str, Any] | None = None) -> McpRequestRefused:
        """An error to raise: the request is then answered by it, and not by a result."""
        self.refused = McpRequestRefused(code, message, data)
        return self.refused

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask several things at once; the keys name them, and are unique over the call.

        Raises:
            Refused: The client did not declare that it can be asked so.
            ToolError: It refused, or is gone.
        """
        self.require(*dict.fromkeys(NEEDS[type(question)] for question in questions.values()))
        with contextlib.nullcontext() if self._invocation is None else self._invocation.waiting():
            return dict(await self._here(self._put(questions)))

    async def _put(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        patience = self._patience()
        try:
            async with time_limit(patience):
                return await self._line.put(questions)
        except TimeoutError:
            raise ToolError("unanswered", f"the client did not answer within {patience:g} seconds") from None

    async def elicit(self, message: str, form: dict[str, Any] | None = None, *, key: str = "") -> ElicitAnswer:
        """Ask the person at the client to fill in a form."""
        question = ElicitQuestion(message=message) if form is None else ElicitQuestion(message=message, form=form)
        return await self._one(key, question, ElicitAnswer)

    async def visit(self, message: str, url: str, *, key: str = "") -> ElicitAnswer:
        """Ask the person at the client to go to an address, as to sign in somewhere."""
        return await self._one(key, ElicitQuestion(message=message, url=url), ElicitAnswer)

    async def sample(self, prompt: str, *, system: str = "", max_tokens: int = 1_000, key: str = "") -> SampleAnswer:
        """Ask the client's model."""
        return await self._one(key, SampleQuestion(prompt=prompt, system=system, max_tokens=max_tokens), SampleAnswer)

    async def roots(self, *, key: str = "") -> tuple[str, ...]:
        """Ask where the client works."""
        return (await self._one(key, RootsQuestion(), RootsAnswer)).uris

    async def pass_on(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client what another server asks, and get what it says, both as they came.

        Raises:
            ToolError: It refused, or is gone.
        """
        self._asked += 1
        key = f"{method.partition('/')[0]}-{self._asked}"
        answer = (await self._here(self._put({key: PassedQuestion(method=method, params=params)})))[key]
        assert isinstance(answer, PassedAnswer)
        return answer.result

    async def log(self, data: Any, level: Level = "info", *, logger: str = "") -> None:
        """Tell the client something. It gets it if it wants messages of this level."""
        if self._log is not None:
            await self._here(self._log(level, data, logger))

    async def pause(self) -> None:
        """End the stream of this call's answer where that can be taken up again. The client comes back for the rest."""
        if self._pause is not None:
            await self._here(self._pause())

    def detach(self) -> bool:
        """Go on as a task: the client is told now, and need not wait. False if it has no tasks; then it waits."""
        if self._detach is None:
            return False
        if asyncio.get_running_loop() is self._loop:
            self._detach()
        else:
            self._loop.call_soon_threadsafe(self._detach)
        return True

    async def _one(self, key: str, question: Question, kind: type[T]) -> T:
        if not key:
            self._asked += 1
            key = f"{NEEDS[type(question)]}-{self._asked}"
        answer = (await self.ask({key: question}))[key]
        if not isinstance(answer, kind):
            raise ToolError("bad_answer", f"the client answered {key!r} with something else than was asked for")
        return answer

    async def _here(self, work: Awaitable[T]) -> T:
        """Done in the server's loop, also for a handler that has a loop of its own in a thread."""
        if asyncio.get_running_loop() is self._loop:
            return await work

        async def there() -> T:
            return await work

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), self._loop))


class DeferredQuestionLine:
    """The line of a client that is not there now: questions stay open until it brings the answers."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self.open: dict[str, Question] = {}
        self._given = dict(given or {})
        self._answers: dict[str, Answer] = {}
        self._asked: set[str] = set()
        self._moved = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        """Called when a question was put, and when one was answered."""

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        if again := self._asked.intersection(questions):
            raise UsageError(f"{sorted(again)[0]!r} was asked before in this call; each question has a key of its own")
        self._asked.update(questions)
        self.open.update(questions)
        self.give(self._given)
        try:
            if self.open.keys() & questions.keys():
                self.on_change()
            while self.open.keys() & questions.keys():
                self._moved.clear()
                await self._moved.wait()
        finally:
            for key in questions:
                self.open.pop(key, None)
        return {key: self._answers[key] for key in questions}

    def give(self, responses: Mapping[str, Any]) -> None:
        """Take the answers to what is open. What was not asked, or does not fit, is left: then it is asked again."""
        taken = {
            key: answer
            for key, said in responses.items()
            if key in self.open and (answer := read_answer(self.open[key], said)) is not None
        }
        for key, answer in taken.items():
            self._answers[key] = answer
            del self.open[key]
        if taken:
            self._moved.set()
            self.on_change()


def read_answer(question: Question, said: Any) -> Answer | None:
    """What a client said, or None where it is no answer to this question."""
    match question, said:
        case ElicitQuestion(), {"action": "accept", **rest}:
            values: Any = rest.get("content") or {}
            return ElicitAnswer("accept", values) if _fits(question, values) else None
        case ElicitQuestion(), {"action": "decline" | "cancel" as action}:
            return ElicitAnswer(action)
        case SampleQuestion(), {"content": content, **rest}:
            return SampleAnswer(_text(content), str(rest.get("model", "")))
        case PassedQuestion(), dict():
            return PassedAnswer(said)
        case RootsQuestion(), {"roots": list() as roots}:
            return RootsAnswer(tuple(str(root["uri"]) for root in roots if isinstance(root, dict) and "uri" in root))
    return None


def _fits(question: ElicitQuestion, values: Any) -> bool:
    if question.url is not None:
        return True
    return isinstance(values, dict) and not Validator(question.form, "a form").problems(values)


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
