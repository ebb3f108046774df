"""A gateway at work: who asks, what they ask, and the run that answers it. The same for every API, streamed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from handrail.bus.descriptor import CapabilityDescriptor
from handrail.bus.request import Caller
from handrail.core.context import Context
from handrail.core.errors import BusError, UsageError
from handrail.core.messages import Conversation
from handrail.core.redact import Secret
from handrail.core.trace import traceparent
from handrail.server.gateways.anthropic import count
from handrail.server.gateways.anthropic.read import read_to_count
from handrail.server.gateways.asked import Asked, Ended
from handrail.server.gateways.at_once import Admit, AnswerAtOnce
from handrail.server.gateways.failures import failure_of
from handrail.server.gateways.gateway import Gateway, GatewayModel
from handrail.server.gateways.intake import about_the_key, check_content_type, read_body, soon
from handrail.server.gateways.listing import listed
from handrail.server.gateways.memory import Memory
from handrail.server.gateways.not_served import NotServed, wire_of
from handrail.server.gateways.openai.embeddings import PATH as PATH_OF_EMBEDDINGS
from handrail.server.gateways.openai.embeddings import Embeddings
from handrail.server.gateways.openai_responses.doors import ResponseDoors, snapshot
from handrail.server.gateways.openai_responses.ids import forms_of, run_for
from handrail.server.gateways.openai_responses.stored import ResponseStore
from handrail.server.gateways.pipe import Pipe, Tape
from handrail.server.gateways.plan import Plan, covers_calls, model_for, runner_for, with_tools
from handrail.server.gateways.repeats import Answer, Kept, Repeats, cut_off, deleted, other_request
from handrail.server.gateways.responses import headers_of, refusal, to_keep, whole
from handrail.server.gateways.sent import Sent
from handrail.server.gateways.talk import Talk
from handrail.server.gateways.told import ClientGone, EventStream, unless_gone
from handrail.server.gateways.waiting import Taken, taken_up, was_deleted
from handrail.server.gateways.wire import Wire
from handrail.server.gateways.wires import ANTHROPIC, OPENAI, RESPONSES, WIRES

CHAT = CapabilityDescriptor(name="llm.chat", version=(2, 0))
"""The right to use the gateway at all."""


def routes(gateway: Gateway) -> list[Route]:
    desk = _Desk(gateway)
    embeddings = Embeddings(gateway.embedder, gateway.bounds.body)
    served = [
        *(Route(wire.path, desk.door(wire), methods=["POST"], name=wire.name) for wire in WIRES),
        *desk.responses.routes(),
        Route(count.PATH, desk.at_once(ANTHROPIC, desk.count_tokens), methods=["POST"]),
        Route(PATH_OF_EMBEDDINGS, desk.at_once(OPENAI, embeddings.answer), methods=["POST"]),
        Route("/v1/models", desk.models, methods=["GET"]),
        Route("/v1/models/{name:path}", desk.models, methods=["GET"]),
    ]
    return [*served, Route("/v1/{path:path}", NotServed(served, gateway.new_id), name="not served")]


class _Desk:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._memory = Memory(gateway.bounds.kept, gateway.bounds.kept_characters)
        self._repeats = Repeats(gateway.bounds, gateway.now)
        self._stored = ResponseStore(gateway, self._repeats.delete)
        self.responses = ResponseDoors(gateway, self._stored, self._reader)
        self._reading = 0
        """Requests that are not answers yet."""
        self._answers: set[Answer] = set()
        self._taken: set[str] = set()
        """Runs that were taken up and are worked on."""

    def door(self, wire: Wire) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            run = self._gateway.new_id("run")
            try:
                return await self._answer(wire, request, run)
            except (ClientGone, ClientDisconnect):
                return Response(status_code=499)  # for the log; nobody reads it
            except Exception as error:
                return refusal(wire, failure_of(error), run)

        return answer

    async def _answer(self, wire: Wire, request: Request, run: str) -> Response:
        bounds = self._gateway.bounds
        caller, token = await self._known_caller(request)
        with self._one_more():
            body = await read_body(request, bounds.body)
            asked = await soon(len(body), wire.read, body, request.headers, bounds.body)
            model = model_for(asked, self._model(asked.model))
            admitted = await self._admitted(caller, token, model.name)
            sent = await soon(len(body), Sent.of, wire.name, admitted.principal, request.headers, body)
            caller = with_tools(admitted, self._gateway.executor)
            async with self._repeats.finding(sent):
                found = self._repeats.find(sent)
                if found is None:
                    plan = await self._plan(wire, request, asked, model, caller, sent, run)
                    self._gateway.life.check()
                    found = self._begin(plan, sent)
                if isinstance(found, Kept):
                    return found.response()
                if found.cut_off:
                    raise cut_off()
                pipe = self._repeats.begin(found, sent)
        return await self._told(request, found, pipe)

    async def _known_caller(self, request: Request) -> tuple[Caller, Secret | None]:
        """
        Raises:
            BusError: The body is not JSON, the token is not good, or too many are being answered.
        """
        check_content_type(request)
        with about_the_key():
            caller, token = await self._gateway.caller_of(request)
        if self._busy >= self._gateway.bounds.at_once:
            why = f"{self._busy} answers are under way; ask again"
            raise BusError("capacity_exceeded", why, retry_after_ms=1_000)
        return caller, token

    @property
    def _busy(self) -> int:
        """Requests and answers that somebody waits for. Answers whose clients left have a bound of their own."""
        return self._reading + sum(1 for answer in self._answers if answer.waiting)

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1

    def _begin(self, plan: Plan, sent: Sent) -> Answer:
        goes_on = sent.key is not None or plan.asked.background
        pipe = Tape() if goes_on else Pipe(self._gateway.bounds.ahead)
        answer = Answer(plan, Talk(plan, pipe, self._memory), pipe, sent)
        self._answers.add(answer)
        self._stored.begin(answer)
        self._gateway.life.begin(answer.talk)
        answer.talk.task.add_done_callback(lambda task: self._over(answer))
        return answer

    def _over(self, answer: Answer) -> None:
        self._answers.discard(answer)
        self._taken.discard(answer.talk.run)
        self._repeats.ended(answer)
        self._stored.over(answer)
        if answer.sent.key is not None:
            self._repeats.keep(answer, to_keep(answer))
        self._gateway.life.ended(answer.talk)

    # ── from what is asked to a run ──────────────────────────────────────────────────

    async def _plan(
        self, wire: Wire, request: Request, asked: Asked, model: GatewayModel, caller: Caller, sent: Sent, run: str
    ) -> Plan:
        gateway = self._gateway
        if asked.resolve is not None:
            asked = await self._stored.resolved(asked, caller)
        if asked.only is not None:
            asked = replace(asked, tools=tuple(tool for tool in asked.tools if tool.name in asked.only))
        runner = runner_for(gateway, asked, model, caller)
        run = asked.ours.run or run_for(sent.run or run, asked)
        taken: Taken | None = None
        if asked.ours.run is not None:
            taken = await self._take_up(run, caller, asked)
        elif sent.run is not None:
            others = [form for form in forms_of(sent.run) if form != run] if wire is RESPONSES else []
            taken = await self._known(run, others, caller, asked)
        trace = traceparent(request.headers.get("traceparent"))
        id = wire.id(gateway.new_id, run, asked)
        return Plan(
            id=id,
            asked=asked,
            wire=wire,
            runner=runner,
            executor=gateway.executor,
            context=Context(run=run, principal=caller.principal, token=caller.token, trace=trace),
            taken=taken or Taken.anew(self._memory.restored(caller.id, asked.messages)),
            writer=wire.writer(id, int(gateway.now()), asked.model or model.name, asked),
            may_call=asked.choice != "none" and bool(runner.may_call or asked.tools),
        )

    async def _known(self, run: str, others: Sequence[str], caller: Caller, asked: Asked) -> Taken | None:
        """What the record has of the request with a key, whose client was told nothing of it as far as is known.

        `others` are the runs that other requests with this key would have.
        """
        for other in others:
            if await self._gateway.executor.history(other):
                raise other_request()
        history = await self._gateway.executor.history(run)
        if not history:
            return None
        if was_deleted(history):
            raise deleted()
        try:
            taken = await self._take_up(run, caller, asked)
        except BusError as error:
            if error.details.get("param") != "messages":
                raise
            raise other_request() from error
        if not covers_calls(caller, self._gateway.executor, taken.conversation):
            raise other_request()
        return replace(taken, told=taken.asked)

    def _model(self, name: str | None) -> GatewayModel:
        try:
            return self._gateway.models(name)
        except UsageError as error:
            raise BusError("not_found", str(error), param="model") from error

    async def _admitted(self, caller: Caller, token: Secret | None, model: str) -> Caller:
        if self._gateway.admission is not None:
            with about_the_key():
                body = {"params": {"model": model}, "input": {}}
                return await self._gateway.admission.admit(caller, token, CHAT, body)
        _check_right(caller)
        return caller

    async def _take_up(self, run: str, caller: Caller, asked: Asked) -> Taken:
        history = await self._gateway.executor.history(run)
        if run in self._taken or self._gateway.executor.holds(run):
            raise BusError("bad_request", "that run is being worked on; wait for its answer", status=409)
        taken = taken_up(history, run, caller.id, asked.messages)
        self._taken.add(run)
        return taken

    # ── from a run to an answer ──────────────────────────────────────────────────────

    async def _told(self, request: Request, answer: Answer, pipe: Pipe) -> Response:
        asked = answer.plan.asked
        if asked.background and not asked.stream:
            return await self._queued(answer, pipe)
        try:
            response = await (self._streamed if asked.stream else self._whole)(request, answer, pipe)
        except BaseException:
            await self._left(answer, pipe)
            raise
        self._repeats.told(answer)
        return response

    async def _queued(self, answer: Answer, pipe: Pipe) -> Response:
        """The answer as it stands; its client does not wait for the rest."""
        said = whole(snapshot(answer), answer.talk.run)
        await self._left(answer, pipe)
        return said

    async def _left(self, answer: Answer, pipe: Pipe) -> None:
        if isinstance(answer.pipe, Tape):
            answer.pipe.let_go(pipe)
        await self._repeats.left(answer)

    async def _whole(self, request: Request, answer: Answer, pipe: Pipe) -> Response:
        plan, talk = answer.plan, answer.talk
        try:
            ended = await unless_gone(request.receive, _outcome(talk))
        except ClientGone:
            raise
        except Exception as error:
            return refusal(plan.wire, failure_of(error), talk.run, again=not talk.changed)
        return whole(plan.writer.whole(ended), talk.run)

    async def _streamed(self, request: Request, answer: Answer, pipe: Pipe) -> Response:
        """Nothing is sent until something is said, so that the status can tell of what goes wrong before that."""
        bounds = self._gateway.bounds
        await unless_gone(request.receive, pipe.wait(bounds.keep_alive))
        if pipe.ended:
            return await self._whole(request, answer, pipe)
        await answer.talk.begin()
        return EventStream(
            partial(self._left, answer, pipe),
            pipe,
            answer.plan.wire.alive,
            headers_of(answer.talk.run),
            keep_alive=bounds.keep_alive,
            write_seconds=bounds.write_seconds,
        )

    # ── what no run answers ──────────────────────────────────────────────────────────

    def at_once(self, wire: Wire, answer: AnswerAtOnce) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint whose answers and errors have the form of this API."""

        async def answered(request: Request) -> Response:
            id = self._gateway.new_id("request")
            try:
                caller, token = await self._known_caller(request)
                with self._one_more():
                    body = await read_body(request, self._gateway.bounds.body)
                    work = answer(body, request.headers, partial(self._admitted, caller, token))
                    return whole(await unless_gone(request.receive, work), id)
            except (ClientGone, ClientDisconnect):
                return Response(status_code=499)  # for the log; nobody reads it
            except Exception as error:
                return refusal(wire, failure_of(error), id)

        return answered

    async def count_tokens(self, data: bytes, headers: Mapping[str, str], admit: Admit) -> dict[str, Any]:
        gateway = self._gateway
        asked = await soon(len(data), read_to_count, data, headers, gateway.bounds.body)
        model = self._model(asked.model)
        caller = with_tools(await admit(model.name), gateway.executor)
        runner = runner_for(gateway, asked, model, caller)
        conversation = Conversation(self._memory.restored(caller.id, asked.messages))
        request = runner.first_request(conversation, tool_choice=asked.choice, external=asked.tools)
        return await count.count_of(model.model, request, asked.ignored)

    async def _identified(self, request: Request) -> Caller:
        """Who asks for something that is not a call, with the rights of their token."""
        gateway = self._gateway
        with about_the_key():
            caller, token = await gateway.caller_of(request)
            if gateway.identify is not None:
                caller = await gateway.identify(caller, token)
            elif gateway.admission is not None:
                caller = await gateway.admission.admit(caller, token, CHAT, {})
        return with_tools(caller, gateway.executor)

    async def _reader(self, request: Request) -> Caller:
        """Who asks for an answer that was given before; it takes the right to the gateway, and is not a call."""
        caller = await self._identified(request)
        _check_right(caller)
        return caller

    async def models(self, request: Request) -> Response:
        gateway = self._gateway
        wire = wire_of(request.headers)
        id = gateway.new_id("request")
        try:
            await self._identified(request)
            names = list(gateway.names())
            if wire is OPENAI and gateway.embedder is not None:
                names.append(gateway.embedder.name)
            return whole(listed(wire, names, request.path_params.get("name")), id)
        except Exception as error:
            return refusal(wire, failure_of(error), id)


def _check_right(caller: Caller) -> None:
    """
    Raises:
        BusError: The caller may not use the gateway.
    """
    if not Context(principal=caller.principal).allows(CHAT.full_name, CHAT.name):
        raise BusError("token_scope_insufficient", f"that takes the right to {CHAT.full_name}", outcome="forbidden")


async def _outcome(talk: Talk) -> Ended:
    """How a talk ends; it goes on if nobody waits here any more."""
    await asyncio.wait({talk.task})
    if talk.task.cancelled():
        raise cut_off() if talk.changed else BusError("partition", "it was ended; ask again")
    return talk.task.result()
