"""A gateway at work: who asks, what they ask, and the run that answers it. The same for both APIs, streamed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from handrail.bus.descriptor import CapabilityDescriptor
from handrail.bus.request import Caller
from handrail.core.context import Context
from handrail.core.errors import BusError, UsageError
from handrail.core.redact import Secret
from handrail.core.trace import traceparent
from handrail.server.gateways.asked import Asked, Ended
from handrail.server.gateways.failures import OVERLOADED, Failure, failure_of
from handrail.server.gateways.gateway import Gateway, GatewayModel
from handrail.server.gateways.listing import listed
from handrail.server.gateways.memory import Memory
from handrail.server.gateways.pipe import Pipe
from handrail.server.gateways.plan import Plan, runner_for, with_tools
from handrail.server.gateways.talk import Talk
from handrail.server.gateways.told import ClientGone, EventStream, unless_gone
from handrail.server.gateways.waiting import Taken, taken_up
from handrail.server.gateways.wire import Wire, encode
from handrail.server.gateways.wires import ANTHROPIC, OPENAI, WIRES

CHAT = CapabilityDescriptor(name="llm.chat", version=(2, 0))
"""The right to use the gateway at all."""
_SHORT = 256 * 1024
"""Bytes of a body that is read in no time."""


def routes(gateway: Gateway) -> list[Route]:
    desk = _Desk(gateway)
    return [
        *(Route(wire.path, desk.door(wire), methods=["POST"], name=wire.name) for wire in WIRES),
        Route("/v1/models", desk.models, methods=["GET"]),
        Route("/v1/models/{name:path}", desk.models, methods=["GET"]),
    ]


class _Desk:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._memory = Memory(gateway.bounds.kept, gateway.bounds.kept_characters)
        self._under_way = 0
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
                return _refusal(wire, failure_of(error), run)

        return answer

    async def _answer(self, wire: Wire, request: Request, run: str) -> Response:
        bounds = self._gateway.bounds
        with _about_the_key():
            caller, token = await self._gateway.caller_of(request)
        if self._under_way >= bounds.at_once:
            why = f"{self._under_way} answers are under way; ask again"
            raise BusError("capacity_exceeded", why, retry_after_ms=1_000)
        self._under_way += 1
        try:
            asked = await _read(wire, await _body(request, bounds.body), request.headers, bounds.body)
            plan = await self._plan(wire, request, asked, caller, token, run)
            self._gateway.life.check()
        except BaseException:
            self._under_way -= 1
            raise
        pipe = Pipe(bounds.ahead)
        talk = Talk(plan, pipe, self._memory)
        self._gateway.life.begin(talk)
        talk.task.add_done_callback(lambda task: self._over(talk))
        try:
            return await (self._streamed if asked.stream else self._whole)(request, plan, talk, pipe)
        except BaseException:
            await talk.leave()
            raise

    def _over(self, talk: Talk) -> None:
        self._under_way -= 1
        self._taken.discard(talk.run)
        self._gateway.life.ended(talk)

    # ── from what is asked to a run ──────────────────────────────────────────────────

    async def _plan(
        self, wire: Wire, request: Request, asked: Asked, caller: Caller, token: Secret | None, run: str
    ) -> Plan:
        gateway = self._gateway
        model = self._model(asked.model)
        caller = with_tools(await self._admitted(caller, token, model.name), gateway.executor)
        if asked.only is not None:
            asked = replace(asked, tools=tuple(tool for tool in asked.tools if tool.name in asked.only))
        runner = runner_for(gateway, asked, model, caller)
        taken = Taken.anew(self._memory.restored(caller.id, asked.messages))
        if asked.ours.run is not None:
            run, taken = asked.ours.run, await self._take_up(asked.ours.run, caller, asked)
        trace = traceparent(request.headers.get("traceparent"))
        return Plan(
            asked=asked,
            wire=wire,
            runner=runner,
            executor=gateway.executor,
            context=Context(run=run, principal=caller.principal, token=caller.token, trace=trace),
            taken=taken,
            writer=wire.writer(gateway.new_id(wire.id), int(gateway.now()), asked.model or model.name, asked),
            may_call=asked.choice != "none" and bool(runner.may_call or asked.tools),
        )

    def _model(self, name: str | None) -> GatewayModel:
        try:
            return self._gateway.models(name)
        except UsageError as error:
            raise BusError("not_found", str(error), param="model") from error

    async def _admitted(self, caller: Caller, token: Secret | None, model: str) -> Caller:
        if self._gateway.admission is not None:
            with _about_the_key():
                body = {"params": {"model": model}, "input": {}}
                return await self._gateway.admission.admit(caller, token, CHAT, body)
        if not Context(principal=caller.principal).allows(CHAT.full_name, CHAT.name):
            raise BusError("token_scope_insufficient", f"that takes the right to {CHAT.full_name}", outcome="forbidden")
        return caller

    async def _take_up(self, run: str, caller: Caller, asked: Asked) -> Taken:
        history = await self._gateway.executor.history(run)
        if run in self._taken or self._gateway.executor.holds(run):
            raise BusError("bad_request", "that run is being worked on; wait for its answer", status=409)
        taken = taken_up(history, run, caller.id, asked.messages)
        self._taken.add(run)
        return taken

    # ── from a run to an answer ──────────────────────────────────────────────────────

    async def _whole(self, request: Request, plan: Plan, talk: Talk, pipe: Pipe) -> Response:
        try:
            ended = await unless_gone(request.receive, _outcome(talk))
        except ClientGone:
            raise
        except Exception as error:
            return _refusal(plan.wire, failure_of(error), talk.run, again=not talk.changed)
        return _json(plan.writer.whole(ended), talk.run)

    async def _streamed(self, request: Request, plan: Plan, talk: Talk, pipe: Pipe) -> Response:
        """Nothing is sent until something is said, so that the status can tell of what goes wrong before that."""
        bounds = self._gateway.bounds
        await unless_gone(request.receive, pipe.wait(bounds.keep_alive))
        if pipe.ended:
            return await self._whole(request, plan, talk, pipe)
        await talk.begin()
        return EventStream(
            talk,
            pipe,
            plan.wire.alive,
            _headers(talk.run),
            keep_alive=bounds.keep_alive,
            write_seconds=bounds.write_seconds,
        )

    async def models(self, request: Request) -> Response:
        gateway = self._gateway
        wire = ANTHROPIC if "anthropic-version" in request.headers else OPENAI
        id = gateway.new_id("request")
        try:
            with _about_the_key():
                caller, token = await gateway.caller_of(request)
                if gateway.identify is not None:
                    await gateway.identify(caller, token)
                elif gateway.admission is not None:
                    await gateway.admission.admit(caller, token, CHAT, {})
            return _json(listed(wire, gateway.names(), request.path_params.get("name")), id)
        except Exception as error:
            return _refusal(wire, failure_of(error), id)


@contextmanager
def _about_the_key() -> Iterator[None]:
    """A token that cannot be read is, to clients of these APIs, a key that is not good."""
    try:
        yield
    except BusError as error:
        if error.code != "bad_request":
            raise
        raise BusError("token_invalid", error.message, outcome="forbidden") from error


async def _outcome(talk: Talk) -> Ended:
    """How a talk ends. Who no longer waits for that ends it."""
    try:
        await asyncio.wait({talk.task})
    except asyncio.CancelledError:
        await talk.leave()
        raise
    return talk.task.result()


async def _read(wire: Wire, body: bytes, headers: Headers, most: int) -> Asked:
    """A long history, or pictures in it, would hold the loop up."""
    if len(body) < _SHORT:
        return wire.read(body, headers, most)
    return await asyncio.to_thread(wire.read, body, headers, most)


async def _body(request: Request, most: int) -> bytes:
    """
    Raises:
        BusError: It is longer than that.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise BusError("bad_request", f"the request is longer than {most} bytes", status=413)
        pieces.append(piece)
    return b"".join(pieces)


def _headers(id: str) -> dict[str, str]:
    return {"x-request-id": id, "request-id": id, "x-handrail-run": id, "cache-control": "no-store"}


def _json(said: object, id: str) -> Response:
    return Response(encode(said), media_type="application/json", headers=_headers(id))


def _refusal(wire: Wire, failure: Failure, id: str, *, again: bool = True) -> Response:
    if failure.status == OVERLOADED:
        failure = replace(failure, status=wire.overloaded)
    return Response(
        encode(wire.failed(failure, id)),
        failure.status,
        media_type="application/json",
        headers={**_headers(id), **failure.headers(again=again)},
    )
