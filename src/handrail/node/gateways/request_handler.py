"""A gateway at work: who asks, what they ask, and the run that answers it. The same for every API, streamed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handrail.core.backoff import longest_wait
from handrail.core.context import Context
from handrail.core.errors import BusError, UsageError
from handrail.core.ids import traceparent
from handrail.core.messages import Conversation
from handrail.core.redact import Secret
from handrail.http.event_stream import EventStreamResponse, FramePipe, FrameTape
from handrail.http.request_guard import ClientGone, run_while_connected
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller
from handrail.node.gateways.answer_memory import AnswerMemory
from handrail.node.gateways.answer_plan import AnswerPlan, covers_calls, model_for, runner_for, with_tool_scopes
from handrail.node.gateways.answer_run import AnswerRun
from handrail.node.gateways.anthropic.read import read_count_request
from handrail.node.gateways.failures import failure_of
from handrail.node.gateways.gateway import Admit, Gateway, GatewayModel
from handrail.node.gateways.http_responses import (
    answer_headers,
    endpoint,
    model_list_body,
    refusal_response,
    response_to_store,
    whole_answer,
)
from handrail.node.gateways.idempotency import (
    IdempotentAnswers,
    SharedAnswer,
    StoredAnswer,
    deleted_response_error,
    interrupted_request_error,
    key_reused_error,
)
from handrail.node.gateways.openai.embeddings import PATH as PATH_OF_EMBEDDINGS, EmbeddingsEndpoint
from handrail.node.gateways.openai_responses.ids import possible_run_ids, run_id_for_request
from handrail.node.gateways.openai_responses.response_store import ResponseRoutes, ResponseStore, response_snapshot
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.request_body import (
    RequestIdentity,
    check_content_type,
    parse_in_thread_if_large,
    read_bounded_body,
    token_errors_as_invalid,
)
from handrail.node.gateways.resumed_runs import ResumedRun, resume_run, was_deleted
from handrail.node.gateways.token_count import COUNT_PATH, token_count_answer
from handrail.node.gateways.unserved_paths import UnservedPaths, wire_of_request
from handrail.node.gateways.wire import GatewayWire
from handrail.node.gateways.wire_table import ANTHROPIC, OPENAI, RESPONSES, WIRES

AnswerAtOnce = Callable[[bytes, Mapping[str, str], Admit], Coroutine[Any, Any, dict[str, Any]]]
"""The answer to a body with these headers, which is given without a run.

Raises:
    BusError: The request is wrong, or its caller may not ask that.
    ModelError: The model's service did not answer.
"""
_LOOKS = 8
"""How often a run is looked at that another replica has: for about a second."""
CHAT = CapabilityDescriptor(name="llm.chat", version=(2, 0))
"""The right to use the gateway at all."""


def gateway_routes(gateway: Gateway) -> list[Route]:
    desk = _GatewayRequestHandler(gateway)
    embeddings = EmbeddingsEndpoint(gateway.embedder, gateway.bounds.body)
    served = [
        *(Route(wire.path, desk.door(wire), methods=["POST"], name=wire.name) for wire in WIRES),
        *desk.responses.routes(),
        Route(COUNT_PATH, desk.at_once(ANTHROPIC, desk.count_tokens), methods=["POST"]),
        Route(PATH_OF_EMBEDDINGS, desk.at_once(OPENAI, embeddings.answer), methods=["POST"]),
        Route("/v1/models", desk.models, methods=["GET"]),
        Route("/v1/models/{name:path}", desk.models, methods=["GET"]),
    ]
    return [*served, Route("/v1/{path:path}", UnservedPaths(served, gateway.new_id), name="not served")]


class _GatewayRequestHandler:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._memory = AnswerMemory(gateway.bounds.kept, gateway.bounds.kept_characters)
        self._repeats = IdempotentAnswers(gateway.bounds, gateway.now)
        self._stored = ResponseStore(gateway, self._repeats.delete)
        self.responses = ResponseRoutes(gateway, self._stored, self._reader)
        self._reading = 0
        """Requests that are not answers yet."""
        self._answers: set[SharedAnswer] = set()
        self._taken: set[str] = set()
        """Runs that were taken up and are worked on."""

    def door(self, wire: GatewayWire) -> Callable[[Request], Awaitable[Response]]:
        return endpoint(wire, partial(self._gateway.new_id, "run"), partial(self._answer, wire))

    async def _answer(self, wire: GatewayWire, request: Request, run: str) -> Response:
        bounds = self._gateway.bounds
        caller, token = await self._known_caller(request)
        with self._one_more():
            body = await read_bounded_body(request, bounds.body)
            asked = await parse_in_thread_if_large(len(body), wire.read, body, request.headers, bounds.body)
            model = model_for(asked, self._model(asked.model))
            admitted = await self._admitted(caller, token, model.name)
            sent = await parse_in_thread_if_large(
                len(body), RequestIdentity.of, wire.name, admitted.principal, request.headers, body
            )
            caller = with_tool_scopes(admitted, self._gateway.executor)
            async with self._repeats.finding(sent):
                found = self._repeats.find(sent)
                if found is None:
                    plan = await self._plan(wire, request, asked, model, caller, sent, run)
                    self._gateway.life.check()
                    found = self._begin(plan, sent)
                if isinstance(found, StoredAnswer):
                    return found.response()
                if found.cut_off:
                    raise interrupted_request_error()
                pipe = self._repeats.begin(found, sent)
        return await self._told(request, found, pipe)

    async def _known_caller(self, request: Request) -> tuple[Caller, Secret | None]:
        check_content_type(request)
        with token_errors_as_invalid():
            caller, token = await self._gateway.caller_of(request)
        if self._busy >= self._gateway.bounds.at_once:
            why = f"{self._busy} answers are in progress; ask again"
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

    def _begin(self, plan: AnswerPlan, sent: RequestIdentity) -> SharedAnswer:
        goes_on = sent.key is not None or plan.asked.background
        pipe = FrameTape() if goes_on else FramePipe(self._gateway.bounds.ahead)
        answer = SharedAnswer(plan, AnswerRun(plan, pipe, self._memory), pipe, sent)
        self._answers.add(answer)
        self._stored.begin(answer)
        self._gateway.life.begin(answer.talk)
        answer.talk.task.add_done_callback(lambda task: self._over(answer))
        return answer

    def _over(self, answer: SharedAnswer) -> None:
        self._answers.discard(answer)
        self._taken.discard(answer.talk.run)
        self._repeats.ended(answer)
        self._stored.over(answer)
        if answer.sent.key is not None:
            self._repeats.keep(answer, response_to_store(answer))
        self._gateway.life.ended(answer.talk)

    # ── from what is asked to a run ──────────────────────────────────────────────────

    async def _plan(
        self,
        wire: GatewayWire,
        request: Request,
        asked: GatewayRequest,
        model: GatewayModel,
        caller: Caller,
        sent: RequestIdentity,
        run: str,
    ) -> AnswerPlan:
        gateway = self._gateway
        if asked.resolve is not None:
            asked = await self._stored.resolved(asked, caller)
        if asked.only is not None:
            asked = replace(asked, tools=tuple(tool for tool in asked.tools if tool.name in asked.only))
        runner = runner_for(gateway, asked, model, caller)
        run = asked.ours.run or run_id_for_request(sent.run or run, asked)
        taken: ResumedRun | None = None
        if asked.ours.run is not None:
            taken = await self._take_up(run, caller, asked)
            asked = await self._answered(run, caller, asked)
        elif sent.run is not None:
            others = [form for form in possible_run_ids(sent.run) if form != run] if wire is RESPONSES else []
            taken = await self._known(run, others, caller, asked)
        trace = traceparent(request.headers.get("traceparent"))
        id = wire.id(gateway.new_id, run, asked)
        return AnswerPlan(
            id=id,
            asked=asked,
            wire=wire,
            runner=runner,
            executor=gateway.executor,
            context=Context(run=run, principal=caller.principal, token=caller.token, trace=trace),
            taken=taken or ResumedRun.anew(self._memory.restored(caller.id, asked.messages)),
            writer=wire.writer(id, int(gateway.now()), asked.model or model.name, asked),
            may_call=asked.choice != "none" and bool(runner.may_call or asked.tools),
        )

    async def _known(self, run: str, others: Sequence[str], caller: Caller, asked: GatewayRequest) -> ResumedRun | None:
        """What the record has of the request with a key, whose client was told nothing of it as far as is known.

        `others` are the runs that other requests with this key would have.
        """
        for other in others:
            if await self._gateway.executor.runs.history(other):
                raise key_reused_error()
        history = await self._gateway.executor.runs.history(run)
        if not history:
            return None
        if was_deleted(history):
            raise deleted_response_error()
        await self._wait_for_other_replica(run)
        try:
            taken = await self._take_up(run, caller, asked)
        except BusError as error:
            if error.details.get("param") != "messages":
                raise
            raise key_reused_error() from error
        if not covers_calls(caller, self._gateway.executor, taken.conversation):
            raise key_reused_error()
        return replace(taken, told=taken.asked)

    async def _wait_for_other_replica(self, run: str) -> None:
        """Wait a moment while another replica has the run: one that has just answered is about to let go of it. A
        client of a run that goes on for longer is told so."""
        runs = self._gateway.executor.runs
        for tries in range(1, _LOOKS + 1):
            if runs.holds(run) or not await runs.is_live(run):
                return
            await asyncio.sleep(longest_wait(tries, 0.02, 0.2))

    def _model(self, name: str | None) -> GatewayModel:
        try:
            return self._gateway.models(name)
        except UsageError as error:
            raise BusError("not_found", str(error), param="model") from error

    async def _admitted(self, caller: Caller, token: Secret | None, model: str) -> Caller:
        if self._gateway.admission is not None:
            with token_errors_as_invalid():
                body = {"params": {"model": model}, "input": {}}
                return await self._gateway.admission.admit(caller, token, CHAT, body)
        _check_right(caller)
        return caller

    async def _take_up(self, run: str, caller: Caller, asked: GatewayRequest) -> ResumedRun:
        history = await self._gateway.executor.runs.history(run)
        if run in self._taken or self._gateway.executor.runs.holds(run):
            raise BusError("bad_request", "that run is being worked on; wait for its answer", status=409)
        own = {offer.name for offer in asked.tools}
        taken = resume_run(history, run, caller.id, asked.messages, own)
        self._taken.add(run)
        return taken

    async def _answered(self, run: str, caller: Caller, asked: GatewayRequest) -> GatewayRequest:
        """Write down what a person at the client answered; from a caller who may not answer it has no effect."""
        if not asked.answers:
            return asked
        if not self._gateway.may_answer(caller):
            return replace(asked, ignored=(*asked.ignored, "an answer from whoever does not run this node"))
        for answer in asked.answers:
            with suppress(UsageError):  # it was answered before, and the first answer is the answer
                await self._gateway.executor.answer(
                    run, answer.request, allow=answer.allow, by=f"{caller.principal.id} at a frontend"
                )
        return asked

    # ── from a run to an answer ──────────────────────────────────────────────────────

    async def _told(self, request: Request, answer: SharedAnswer, pipe: FramePipe) -> Response:
        asked = answer.plan.asked
        if asked.background and not asked.stream:
            said = whole_answer(response_snapshot(answer), answer.talk.run)  # as it stands; its client does not wait
            await self._left(answer, pipe)
            return said
        try:
            response = await (self._streamed if asked.stream else self._whole)(request, answer, pipe)
        except BaseException:
            await self._left(answer, pipe)
            raise
        self._repeats.told(answer)
        return response

    async def _left(self, answer: SharedAnswer, pipe: FramePipe) -> None:
        if isinstance(answer.pipe, FrameTape):
            answer.pipe.let_go(pipe)
        await self._repeats.left(answer)

    async def _whole(self, request: Request, answer: SharedAnswer, pipe: FramePipe) -> Response:
        plan, talk = answer.plan, answer.talk
        try:
            ended = await run_while_connected(request.receive, _outcome(talk))
        except ClientGone:
            raise
        except Exception as error:
            return refusal_response(plan.wire, failure_of(error), talk.run, again=not talk.changed)
        return whole_answer(plan.writer.whole(ended), talk.run)

    async def _streamed(self, request: Request, answer: SharedAnswer, pipe: FramePipe) -> Response:
        """Streams the answer. Nothing is sent before the first event, so that the status can tell of an early
        failure."""
        bounds = self._gateway.bounds
        await run_while_connected(request.receive, pipe.wait(bounds.keep_alive))
        if pipe.ended:
            return await self._whole(request, answer, pipe)
        await answer.talk.begin()
        leave, headers = partial(self._left, answer, pipe), answer_headers(answer.talk.run)
        return EventStreamResponse(
            leave,
            pipe,
            answer.plan.wire.alive,
            headers,
            keep_alive=bounds.keep_alive,
            write_seconds=bounds.write_seconds,
        )

    # ── what no run answers ──────────────────────────────────────────────────────────

    def at_once(self, wire: GatewayWire, answer: AnswerAtOnce) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint of this API that no run answers."""

        async def answered(request: Request, id: str) -> Response:
            caller, token = await self._known_caller(request)
            with self._one_more():
                body = await read_bounded_body(request, self._gateway.bounds.body)
                work = answer(body, request.headers, partial(self._admitted, caller, token))
                return whole_answer(await run_while_connected(request.receive, work), id)

        return endpoint(wire, partial(self._gateway.new_id, "request"), answered)

    async def count_tokens(self, data: bytes, headers: Mapping[str, str], admit: Admit) -> dict[str, Any]:
        gateway = self._gateway
        asked = await parse_in_thread_if_large(len(data), read_count_request, data, headers, gateway.bounds.body)
        model = self._model(asked.model)
        caller = with_tool_scopes(await admit(model.name), gateway.executor)
        runner = runner_for(gateway, asked, model, caller)
        conversation = Conversation(self._memory.restored(caller.id, asked.messages))
        request = runner.first_request(conversation, tool_choice=asked.choice, external=asked.tools)
        return await token_count_answer(model.model, request, asked.ignored)

    async def _identified(self, request: Request) -> Caller:
        """The caller of something that is not a call, with the rights of their token."""
        gateway = self._gateway
        with token_errors_as_invalid():
            caller, token = await gateway.caller_of(request)
            if gateway.identify is not None:
                caller = await gateway.identify(caller, token)
            elif gateway.admission is not None:
                caller = await gateway.admission.admit(caller, token, CHAT, {})
        return with_tool_scopes(caller, gateway.executor)

    async def _reader(self, request: Request) -> Caller:
        """The caller that asks for an earlier answer; it takes the right to the gateway, and is not a call."""
        caller = await self._identified(request)
        _check_right(caller)
        return caller

    async def models(self, request: Request) -> Response:
        gateway, wire = self._gateway, wire_of_request(request.headers)

        async def listed(request: Request, id: str) -> Response:
            await self._identified(request)
            names = list(gateway.names())
            if wire is OPENAI and gateway.embedder is not None:
                names.append(gateway.embedder.name)
            return whole_answer(model_list_body(wire, names, request.path_params.get("name")), id)

        return await endpoint(wire, partial(gateway.new_id, "request"), listed)(request)


def _check_right(caller: Caller) -> None:
    if not Context(principal=caller.principal).allows(CHAT.full_name, CHAT.name):
        raise BusError("token_scope_insufficient", f"that takes the right to {CHAT.full_name}", outcome="forbidden")


async def _outcome(talk: AnswerRun) -> GatewayOutcome:
    """How a talk ends; it goes on if nobody waits here any more."""
    await asyncio.wait({talk.task})
    if talk.task.cancelled():
        raise interrupted_request_error() if talk.changed else BusError("partition", "it was ended; ask again")
    return talk.task.result()
