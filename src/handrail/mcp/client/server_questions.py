"""The questions of a server to its host in mid-call: values from a person, a reply of a model, the folders in use.

A server is a stranger, so a person decides about each question, and what they say is
held to the form that was asked. A standing `allow` is never enough; a `deny` is: the
questions go by the names `server:elicit` and `server:sample`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from handrail.core.confirmation import Allow, Confirmation, ConfirmationSubject, Decision, Deny, Edit, grant_binding
from handrail.core.errors import Denied, ToolError, UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, ReplyFinished, TextDelta
from handrail.core.first_answer import append_answer, first_decision, wait_forever, wait_in_journal
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation
from handrail.core.messages import Media, StopReason, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Approver, Clock, Journal, Model, SystemClock
from handrail.tools.schema.validator import Validator

Kind = Literal["elicitation", "sampling", "roots"]
Action = Literal["accept", "decline", "cancel"]

_ATTEMPTS = 3
"""The number of times a person is asked again whose answer does not fit the form."""


class ElicitationReply(Struct, frozen=True):
    """The outcome of a question: answered, refused, or left open."""

    action: Action
    values: dict[str, Any] = field(default_factory=dict)


class SamplingReply(Struct, frozen=True, kw_only=True):
    """The reply of a model to a server."""

    text: str
    model: str
    stop: StopReason = "end"


class ClientRefused(ToolError):
    """A client answered a question that was passed on with a protocol error; the server is answered with the same."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__("client_refused", message)
        self.rpc_code = code
        self.data = data


class ClientRelay(Protocol):
    """The MCP clients that our servers work for, where handrail stands between them."""

    @property
    def shakes_hands(self) -> bool:
        """Whether the client speaks the older era: then its servers are spoken to in that too, where they can."""
        ...

    @property
    def answers(self) -> frozenset[Kind]:
        """What the clients can be asked. Servers are told of nothing else."""
        ...

    @property
    def extensions(self) -> Mapping[str, dict[str, Any]]:
        """The extensions that the clients declare, as they wrote them."""
        ...

    async def ask(
        self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]
    ) -> dict[str, Any]:
        """Pass a request on as it came, to the client of one of these calls; what it says, as it came.

        Raises:
            ToolError: It cannot be asked, would not answer, or a rule denies it.
        """
        ...

    def tell(self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]) -> None:
        """Pass a notification on as it came."""
        ...


class ServerQuestionHandler(Protocol):
    """Answers the questions of servers."""

    @property
    def answers(self) -> frozenset[Kind]:
        """What can be answered at all. Servers are told of nothing else."""
        ...

    @property
    def roots(self) -> tuple[Path, ...]: ...

    async def elicit(
        self, server: str, message: str, form: dict[str, Any] | None, url: str | None, meant: tuple[str, ...] = ()
    ) -> ElicitationReply:
        """Values for a form, or whether a person will go to an address. `meant` are the runs that it may be for: one,
        or those at work with the server if it does not say for which it asks.

        Raises:
            UsageError: The question itself cannot be put to anybody; the words say why.
        """
        ...

    async def sample(self, server: str, request: ModelRequest, meant: tuple[str, ...] = ()) -> SamplingReply:
        """A model's reply.

        Raises:
            Denied: The person would not have it.
            ModelError: The model gave none.
        """
        ...


class ApproverQuestionHandler:
    """Passes every question to the approver, and permitted sampling requests to the model. Both are recorded."""

    def __init__(
        self,
        approver: Approver | None = None,
        model: Model | None = None,
        journal: Journal | None = None,
        *,
        roots: tuple[Path, ...] = (),
        max_tokens: int = 4096,
        clock: Clock | None = None,
        new_id: NewId = new_id,
    ) -> None:
        self._approver = approver
        self._model = model
        self._journal = journal
        self.roots = roots
        self._max_tokens = max_tokens
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._withdrawing: set[asyncio.Future[ConfirmationAnswered]] = set()

    @property
    def answers(self) -> frozenset[Kind]:
        can: Mapping[Kind, bool] = {
            "elicitation": self._approver is not None,
            "sampling": self._approver is not None and self._model is not None,
            "roots": bool(self.roots),
        }
        return frozenset(kind for kind, able in can.items() if able)

    # ── values from a person ─────────────────────────────────────────────────────────

    async def elicit(
        self, server: str, message: str, form: dict[str, Any] | None, url: str | None, meant: tuple[str, ...] = ()
    ) -> ElicitationReply:
        if url is not None:
            return await self._visit(server, message, url, meant)
        form = form or {"type": "object", "properties": {}}
        validator = Validator(form, f"the form of server {server!r}", root="(answer)")
        question = self._question(server, "elicit", message, _defaults(form), meant, form)
        for _ in range(_ATTEMPTS):
            decision = await self._decide(question, validator.secret_places(question.arguments))
            match decision:
                case Allow():
                    values = question.arguments
                case Edit(arguments=values):
                    pass
                case _:
                    return ElicitationReply(_REFUSED.get(type(decision), "cancel"))
            problems = validator.problems(values)
            if not problems:
                return ElicitationReply("accept", values)
            again = f"{_why(server, meant)}; the last answer did not fit: {'; '.join(problems)}"
            question = replace(question, request=self._new_id("confirm"), why=again)
        return ElicitationReply("cancel")

    async def _visit(self, server: str, message: str, url: str, meant: tuple[str, ...]) -> ElicitationReply:
        """Whether a person will go to an address. Nobody goes there for them."""
        if not _is_of_the_web(url):
            raise UsageError(f"server {server!r} asks somebody to open {url!r}, which is not an address of the web")
        decision = await self._decide(self._question(server, "elicit", message, {"url": url}, meant))
        return ElicitationReply("accept" if isinstance(decision, Allow) else _REFUSED.get(type(decision), "cancel"))

    # ── a reply of a model ───────────────────────────────────────────────────────────

    async def sample(self, server: str, request: ModelRequest, meant: tuple[str, ...] = ()) -> SamplingReply:
        if self._model is None:
            raise UsageError(f"server {server!r} asks for a model, and none is set up for that")
        most = min(request.max_tokens or self._max_tokens, self._max_tokens)
        request = replace(request, max_tokens=most, tools=(), tool_choice="none")
        said = [{"role": role, "text": text} for role, text in map(_said, request.messages)]
        question = self._question(
            server,
            "sample",
            f"Server {server!r} asks the model {self._model.name!r} for a reply. It will read it.",
            {"messages": said, "max_tokens": most},
            meant,
        )
        match await self._decide(question):
            case Allow():
                return await _reply(self._model, request)
            case Deny(by=by, reason=reason):
                raise Denied(f"{by} would not have it{f': {reason}' if reason else ''}")
        raise Denied("nobody allowed it")

    # ── what the client of the server answers ────────────────────────────────────────

    async def passed_on(
        self,
        server: str,
        method: str,
        params: dict[str, Any],
        meant: tuple[str, ...],
        ask: Callable[[], Awaitable[dict[str, Any]]],
        answering: Callable[[Callable[[Confirmation], Awaitable[Decision]]], AbstractContextManager[None]],
    ) -> dict[str, Any]:
        """What `ask` gets from the client that the server works for. A rule may deny it, and both are on record.

        `answering` lets its block be decided, where no rule decides, by what it is given.

        Raises:
            ToolError: The client would not answer, or a rule denies it.
        """
        what = "elicit" if method == "elicitation/create" else "sample"
        passed = _PassedQuestion(ask)
        message = str(params.get("message", "")) or f"Server {server!r} asks the model of its client for a reply."
        shown = {name: value for name, value in params.items() if name not in ("_meta", "message")}
        with answering(passed.decide):
            decision = await self._decide(self._question(server, what, message, shown, meant))
        if (answer := passed.answer) is not None:
            if isinstance(answer, ToolError):
                raise answer
            return answer
        if what == "elicit":
            return {"action": _REFUSED.get(type(decision), "cancel")}
        raise Denied(decision.reason if isinstance(decision, Deny) else "nobody allowed it")

    # ── asking, on record ────────────────────────────────────────────────────────────

    def _question(
        self,
        server: str,
        what: str,
        message: str,
        arguments: dict[str, Any],
        meant: tuple[str, ...],
        form: dict[str, Any] | None = None,
    ) -> Confirmation:
        return Confirmation(
            request=self._new_id("confirm"),
            run=f"mcp_{server}",
            call_id=self._new_id("ask"),
            tool=f"{server}:{what}",
            description=message,
            arguments=arguments,
            binds="",
            why=_why(server, meant),
            form=form,
            meant=meant,
        )

    async def _decide(self, question: Confirmation, secrets: tuple[str, ...] = ()) -> Decision:
        if self._approver is None:
            raise UsageError("nobody is there to be asked")
        nonce = self._new_id("nonce")
        binds = grant_binding(nonce, question.run, question.call_id, question.tool, question.arguments)
        question = replace(question, binds=binds, secrets=secrets)
        asked = ConfirmationRequested(
            run=question.run,
            at=self._clock.now(),
            request=question.request,
            call_id=question.call_id,
            tool=question.tool,
            binds=binds,
            asked=ConfirmationSubject(question.shown, nonce, why=question.why, secrets=question.secrets),
        )
        await self._record(asked)
        try:
            decision = await first_decision(self._approver, question, partial(self._elsewhere, question))
        except BaseException as error:
            # Who asked may be gone, and with it this task: the record must not wait for an answer for ever.
            task = asyncio.ensure_future(self._record_answer(self._answered(asked, None, nonce, type(error).__name__)))
            self._withdrawing.add(task)
            task.add_done_callback(self._withdrawing.discard)
            raise
        if isinstance(decision, ConfirmationAnswered):
            return _decision_as_values(decision)
        answer = self._answered(asked, decision, nonce)
        first = await self._record_answer(answer)
        return decision if first == answer else _decision_as_values(first)

    async def _elsewhere(self, question: Confirmation) -> ConfirmationAnswered:
        if self._journal is None:
            return await wait_forever()
        return await wait_in_journal(self._journal, question.run, question.request)

    def _answered(
        self, asked: ConfirmationRequested, decision: Decision | None, nonce: str, why: str = "nobody answered"
    ) -> ConfirmationAnswered:
        at = self._clock.now()
        match decision:
            case Allow(by=by):
                return asked.answered("allow", at=at, by=by)
            case Edit(by=by, arguments=values):
                binds = grant_binding(nonce, asked.run, asked.call_id, asked.tool, values)
                return replace(asked.answered("allow", at=at, by=by), binds=binds, edited=True)
            case Deny(by=by, reason=reason):
                return asked.answered("deny", at=at, by=by, reason=reason)
        return asked.answered("deny", at=at, by="handrail", reason=f"the question was withdrawn: {why}")

    async def _record(self, event: ConfirmationRequested) -> None:
        if self._journal is not None:
            await self._journal.append(event)

    async def _record_answer(self, event: ConfirmationAnswered) -> ConfirmationAnswered:
        return event if self._journal is None else await append_answer(self._journal, event)


_REFUSED: Mapping[type, Action] = {Deny: "decline"}


class _PassedQuestion:
    """A question on its way to the client of a server: the client's answer is the decision about it."""

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ask = ask
        self.answer: dict[str, Any] | ToolError | None = None

    async def decide(self, question: Confirmation) -> Decision:
        try:
            self.answer = await self._ask()
        except ToolError as refusal:
            self.answer = refusal
            return Deny("the MCP client", refusal.message)
        if (action := self.answer.get("action", "accept")) != "accept":
            return Deny("the MCP client", f"answered {action!r} when asked")
        return Allow("the MCP client")


def _decision_as_values(answer: ConfirmationAnswered) -> Decision:
    """What somebody answered elsewhere. Nobody can fill in a form there, so an `allow` takes the values as they are."""
    return Allow(answer.by) if answer.decision == "allow" else Deny(answer.by, answer.reason)


def _why(server: str, meant: tuple[str, ...]) -> str:
    why = f"the MCP server {server!r} asks, and what you say goes there"
    return why if len(meant) < 2 else f"{why}; it works for {len(meant)} runs now and does not say for which it asks"


def _is_of_the_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _defaults(form: Mapping[str, Any]) -> dict[str, Any]:
    properties = form.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    return {name: part["default"] for name, part in fields if isinstance(part, dict) and "default" in part}


def _said(message: Any) -> tuple[str, str]:
    kind = type(message).__name__.removesuffix("Message").lower()
    parts = message.content if isinstance(message, UserMessage) else ()
    media = "".join(f"\n({part.media_type}, not shown here)" for part in parts if isinstance(part, Media))
    return kind, message.text + media


async def _reply(model: Model, request: ModelRequest) -> SamplingReply:
    said: list[str] = []
    stop: StopReason = "end"
    name = model.name
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    said.append(text)
                case ReplyFinished():
                    stop, name = event.stop, event.model or name
    return SamplingReply(text="".join(said), model=name, stop=stop)
