"""tools/list and tools/call: what a client sees of the tools, and one call from the request to its answer."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.canonical import digest
from handrail.core.confirmation import Confirmation
from handrail.core.context import Context, Principal, RepeatingCaller
from handrail.core.events import CallProgress, Event
from handrail.core.ids import NewId, new_id, traceparent
from handrail.mcp.server import searched_tools
from handrail.mcp.server.call_rounds import Answered, CallRounds
from handrail.mcp.server.caller import (
    CALL_KEY,
    Request,
    asks_by_form,
    caller_of,
    is_modern,
    may_use,
    owner_of,
    principal_of,
)
from handrail.mcp.server.calls_in_progress import CallsInProgress
from handrail.mcp.server.client_approver import ClientDecider
from handrail.mcp.server.client_runs import ClientRuns, Place
from handrail.mcp.server.deciders import (
    KEY,
    CallAwaitingConfirmation,
    CallAwaitingInput,
    MidCallDecider,
    NextRoundDecider,
    confirmation_form,
    decided_by,
    decider_for,
)
from handrail.mcp.server.definition import CALL_TOOL, McpCaller, McpServerDefinition
from handrail.mcp.server.passed_calls import in_era_of
from handrail.mcp.server.question_wire import input_responses_of
from handrail.mcp.server.results import call_result, output_schema, page_of, passed_result
from handrail.mcp.server.sendable import sendable_text
from handrail.mcp.server.tasks.store import TaskStore
from handrail.mcp.values import RemoteListing
from handrail.tools.finder import FIND_TOOLS
from handrail.tools.tool import Tool

_LONGEST_KEY = 256


class McpToolCalls:
    """Settles the calls of clients through the invoker, which checks, confirms and records them."""

    def __init__(
        self,
        served: McpServerDefinition,
        new_id: NewId = new_id,
        under_way: CallsInProgress | None = None,
        tasks: TaskStore | None = None,
    ) -> None:
        self._served = served
        self.runs = ClientRuns(new_id, served.finish)
        self._rounds = CallRounds(served, self.runs, under_way or CallsInProgress(), tasks)

    async def listed(self, request: Request, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        principal = principal_of(self._served, request)
        offered = [tool for tool in self._served.tools() if may_use(principal, *tool.names)]
        modern = is_modern(request)
        if self._served.searched:
            found = [_listed(tool, modern=modern) for tool in offered if tool.name == FIND_TOOLS]
            return types.ListToolsResult(tools=[*found, searched_tools.LISTED])
        shown, more = page_of(offered, params)
        return types.ListToolsResult(tools=[_listed(tool, modern=modern) for tool in shown], next_cursor=more)

    def schema(self, name: str) -> dict[str, Any] | None:
        """What the transport holds headers of a call to."""
        tools = self._served.tools()
        if self._served.searched and name == CALL_TOOL:
            return searched_tools.SCHEMA
        return tools.find(name).definition.input_schema if name in tools else None

    async def call(self, request: Request, params: types.CallToolRequestParams) -> Answered:
        caller = caller_of(request)
        principal = self._served.principal(caller)
        if self._served.searched:
            meant = searched_tools.unwrapped(params, self._served.tools())
            if isinstance(meant, types.CallToolResult):
                return meant
            params = meant
        owner, arguments = owner_of(self._served, request), params.arguments or {}
        same = digest([owner, params.name, arguments])
        waited, left = CallAwaitingConfirmation.read(params.request_state), CallAwaitingInput.read(params.request_state)
        tools = self._served.tools().digest
        place = _place(waited or left) or self.runs.place(caller, owner, _key(request), same, tools)
        answer, said = _answer(params), input_responses_of(params)
        going = self._rounds.take_up(left, owner, said)
        if going is None:
            word = (waited, answer) if waited is not None and answer is not None else None
            talk = decider_for(request, decided_by(request, principal.id), word)
            call = ToolCall(place[1], params.name, arguments)
            repeating = RepeatingCaller(owner, self.runs.since(caller, owner), _key(request) or "", may_resend=True)
            context = _context(place[0], request, caller, principal, repeating)
            going = self._rounds.begin(request, call, context, owner, talk, said)
        dismissed = going.detached or (answer is not None and answer.action == "cancel")
        answered = partial(self._answered, request, going.talk, place, same, dismissed)
        return await self._rounds.follow(request, going, _ProgressSteps(request, place[1]).tell, answered)

    async def _answered(
        self, request: Request, talk: ClientDecider | None, place: Place, same: str, dismissed: bool, result: ToolResult
    ) -> Answered:
        tools = self._served.tools()
        if result.outcome == "unknown_tool" and result.name not in tools:
            raise MCPError(types.INVALID_PARAMS, sendable_text(f"Unknown tool: {result.text}"))
        question = None
        if isinstance(talk, MidCallDecider | NextRoundDecider):
            # It may be about an equal call that waits since an earlier session; then it goes on there.
            question = talk.asked.get(place[1]) or next(reversed(talk.asked.values()), None)
        waits = None
        if result.outcome == "needs_confirmation":
            can_ask = is_modern(request) and asks_by_form(request) and not dismissed
            if question is not None and can_ask and (form := confirmation_form(question)) is not None:
                return _input(question, form)
            self.runs.waits(same, place)
            waits = None if question is None else f"{question.request}{self._served.confirm_options}"
        else:
            self.runs.settled(same, place)
        if self._served.relay is not None:
            await self._served.relay.flush()  # what the server said before its answer comes before it here too
        if (passed := self._rounds.passed.of(result)) is not None:
            return passed_result(in_era_of(request, passed), result)
        tool = tools.find(result.name) if result.name in tools else None
        return await call_result(result, tool, modern=is_modern(request), spill=self._served.spill, waits=waits)


class _ProgressSteps:
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
        await self._session.report_progress(step, total, sendable_text(event.stage) or None)


def _listed(tool: Tool, *, modern: bool) -> types.Tool:
    if isinstance(tool.handler, RemoteListing):
        return _passed(tool, tool.handler.listing(), modern=modern)
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


def _passed(tool: Tool, listing: dict[str, Any], *, modern: bool) -> types.Tool:
    """A tool of a server behind us as it lists it, but for its name here, and what we do not pass on."""
    shown = {name: value for name, value in listing.items() if name not in ("outputSchema", "execution")}
    promised = output_schema(tool, modern=modern)
    more: dict[str, Any] = {} if promised is None else {"outputSchema": promised}
    hints = listing.get("annotations")
    if tool.definition.untrusted and isinstance(hints, dict) and hints.get("openWorldHint") is False:
        more["annotations"] = {**hints, "openWorldHint": True}  # a client may believe us, and we do not believe it
    return types.Tool.model_validate({**shown, **more, "name": tool.name}, by_name=False)


def _key(request: Request) -> str | None:
    key = (request.meta or {}).get(CALL_KEY)
    if key is None or (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY):
        return key
    raise MCPError(types.INVALID_PARAMS, f"{CALL_KEY} is text of 1 to {_LONGEST_KEY} characters")


def _place(state: CallAwaitingConfirmation | CallAwaitingInput | None) -> Place | None:
    return None if state is None else (state.run, state.call)


def _answer(params: types.CallToolRequestParams) -> types.ElicitResult | None:
    given = (params.input_responses or {}).get(KEY)
    return given if isinstance(given, types.ElicitResult) else None


def _context(
    run: str, request: Request, caller: McpCaller, principal: Principal, repeating: RepeatingCaller
) -> Context:
    trace = traceparent((request.meta or {}).get("traceparent"))
    told = {"client": caller.client, "version": caller.version, "protocol": caller.protocol}
    return Context(
        run=run,
        principal=principal,
        trace=trace,
        repeating=repeating,
        auxdata={"mcp": told},
    )


def _input(question: Confirmation, form: types.ElicitRequestFormParams) -> types.InputRequiredResult:
    state = CallAwaitingConfirmation(run=question.run, call=question.call_id, request=question.request)
    return types.InputRequiredResult(
        input_requests={KEY: types.ElicitRequest(params=form)}, request_state=state.written()
    )
