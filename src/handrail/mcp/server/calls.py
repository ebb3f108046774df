"""tools/list and tools/call: what a client sees of the tools, and one call from the request to its answer."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.canonical import digest
from handrail.core.context import Context, Principal
from handrail.core.events import CallProgress, Event
from handrail.core.ids import NewId, new_id
from handrail.core.trace import traceparent
from handrail.mcp.server.ask_wire import given
from handrail.mcp.server.asker import Talk
from handrail.mcp.server.caller import (
    CALL_KEY,
    Request,
    asks_by_form,
    caller_of,
    is_modern,
    may,
    owner_of,
    principal_of,
)
from handrail.mcp.server.pages import page
from handrail.mcp.server.results import called, output_schema
from handrail.mcp.server.rounds import Left, Rounds
from handrail.mcp.server.runs import Place, Runs
from handrail.mcp.server.sayable import sayable
from handrail.mcp.server.served import Caller, Served
from handrail.mcp.server.state import Round
from handrail.mcp.server.talk import KEY, MidCall, NextRound, elicitation, speaker, talk_with
from handrail.mcp.server.tasks.store import Tasks
from handrail.mcp.server.under_way import UnderWay
from handrail.tools.tool import Tool

_LONGEST_KEY = 256


class Calls:
    """Settles the calls of clients through the invoker, which checks, confirms and records them."""

    def __init__(
        self, served: Served, new_id: NewId = new_id, under_way: UnderWay | None = None, tasks: Tasks | None = None
    ) -> None:
        self._served = served
        self.runs = Runs(new_id, served.finish)
        self._rounds = Rounds(served, self.runs, under_way or UnderWay(), tasks)

    async def listed(self, request: Request, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        principal = principal_of(self._served, request)
        offered = [tool for tool in self._served.tools() if may(principal, *tool.names)]
        shown, more = page(offered, params)
        modern = is_modern(request)
        return types.ListToolsResult(tools=[_listed(tool, modern=modern) for tool in shown], next_cursor=more)

    def schema(self, name: str) -> dict[str, Any] | None:
        """What the transport holds headers of a call to."""
        tools = self._served.tools()
        return tools.find(name).definition.input_schema if name in tools else None

    async def call(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        caller = caller_of(request)
        principal = self._served.principal(caller)
        owner, arguments = owner_of(self._served, request), params.arguments or {}
        same = digest([owner, params.name, arguments])
        waited, left = Round.read(params.request_state), Left.read(params.request_state)
        tools = self._served.tools().digest
        place = _place(waited or left) or self.runs.place(caller, owner, _key(request), same, tools)
        answer, said = _answer(params), given(params)
        going = self._rounds.take_up(left, owner, said)
        if going is None:
            word = (waited, answer) if waited is not None and answer is not None else None
            talk = talk_with(request, speaker(request, principal.id), word)
            call = ToolCall(place[1], params.name, arguments)
            going = self._rounds.begin(request, call, _context(place[0], request, caller, principal), owner, talk, said)
        dismissed = going.detached or (answer is not None and answer.action == "cancel")
        answered = partial(self._answered, request, going.talk, place, same, dismissed)
        return await self._rounds.follow(request, going, _Steps(request, place[1]).tell, answered)

    async def _answered(
        self, request: Request, talk: Talk | None, place: Place, same: str, dismissed: bool, result: ToolResult
    ) -> types.CallToolResult | types.InputRequiredResult:
        tools = self._served.tools()
        if result.outcome == "unknown_tool" and result.name not in tools:
            raise MCPError(types.INVALID_PARAMS, sayable(f"Unknown tool: {result.text}"))
        question = talk.asked.get(place[1]) if isinstance(talk, MidCall | NextRound) else None
        waits = None
        if result.outcome == "needs_confirmation":
            can_ask = is_modern(request) and asks_by_form(request) and not dismissed
            if question is not None and can_ask and (form := elicitation(question)) is not None:
                return _input(place, question.request, form)
            self.runs.waits(same, place)
            waits = None if question is None else question.request
        else:
            self.runs.settled(same, place)
        tool = tools.find(result.name) if result.name in tools else None
        return await called(result, tool, modern=is_modern(request), spill=self._served.spill, waits=waits)


class _Steps:
    """Tells the client how far its call is, in numbers that only grow, as the protocol wants them."""

    def __init__(self, request: Request, call_id: str) -> None:
        self._session = request.session
        self._call_id = call_id
        self._last = -math.inf

    async def tell(self, event: Event) -> None:
        if not isinstance(event, CallProgress) or event.call_id != self._call_id:
            return
        if event.current is not None and math.isfinite(event.current):
            step, total = event.current, event.total
        else:
            step, total = (0.0 if math.isinf(self._last) else self._last + 1), None
        if step <= self._last:
            if not event.stage:
                return
            step = math.nextafter(self._last, math.inf)
        self._last = step
        await self._session.report_progress(step, total, sayable(event.stage) or None)


def _listed(tool: Tool, *, modern: bool) -> types.Tool:
    definition = tool.definition
    hints = types.ToolAnnotations(
        read_only_hint=not definition.side_effects,
        idempotent_hint=definition.idempotent if definition.side_effects else None,
        open_world_hint=True if definition.untrusted else None,
    )
    return types.Tool(
        name=tool.name,
        description=definition.description or None,
        input_schema={"type": "object", **definition.input_schema},
        output_schema=output_schema(tool, modern=modern),
        annotations=hints,
    )


def _key(request: Request) -> str | None:
    key = (request.meta or {}).get(CALL_KEY)
    if key is None or (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY):
        return key
    raise MCPError(types.INVALID_PARAMS, f"{CALL_KEY} is text of 1 to {_LONGEST_KEY} characters")


def _place(state: Round | Left | None) -> Place | None:
    return None if state is None else (state.run, state.call)


def _answer(params: types.CallToolRequestParams) -> types.ElicitResult | None:
    given = (params.input_responses or {}).get(KEY)
    return given if isinstance(given, types.ElicitResult) else None


def _context(run: str, request: Request, caller: Caller, principal: Principal) -> Context:
    trace = traceparent((request.meta or {}).get("traceparent"))
    told = {"client": caller.client, "version": caller.version, "protocol": caller.protocol}
    return Context(run=run, principal=principal, trace=trace, auxdata={"mcp": told})


def _input(place: Place, request: str, form: types.ElicitRequestFormParams) -> types.InputRequiredResult:
    state = Round(run=place[0], call=place[1], request=request)
    return types.InputRequiredResult(
        input_requests={KEY: types.ElicitRequest(params=form)}, request_state=state.written()
    )
