"""One run: asks the model, has its calls settled, and again, until the model calls no tool or a limit is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import (
    BrokenChoice,
    InvalidAnswer,
    InvalidArguments,
    JournalError,
    LimitExceeded,
    LimitReached,
    ModelError,
    NeedsConfirmation,
    ToolError,
    ToolFailed,
    UsageError,
)
from handrail.core.events import AgentChanged, AttemptFailed, Emit, Notice
from handrail.core.ids import NewId, nested_id
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
)
from handrail.core.model_request import ModelRequest, ModelScratch, NamedTool, ToolChoice, ToolOffer
from handrail.core.ports import Model, holds_to_schema, takes_tools
from handrail.core.redact import redact
from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit_at
from handrail.execute.executor import Executor
from handrail.execute.ledger import CallLedger
from handrail.execute.origins.plans import PLAN_ALLOWED, PLAN_EMPTY, PLAN_NOTED, PLAN_WAITS
from handrail.run.answers import ACCEPTED, Route, RunAnswer, ends_with_answer_call
from handrail.run.handoffs import Team, TeamMember, accepted
from handrail.run.history import last_user_position, unanswered_calls, usage_of_run
from handrail.run.limits import Limits, RunBudget
from handrail.run.offering import ALWAYS_VALID, ExternalTools, OfferableTools, ToolSelection
from handrail.run.planning import (
    PLAN_TOOL,
    STATE_PLAN,
    WHY_ASKED,
    Plans,
    plan_is_due,
    plan_offer,
    plannable_tools,
    read_plan,
    refused_plans,
    run_plan,
    take_up_plan,
)
from handrail.run.reply import Early, ModelReply
from handrail.run.run_calls import RunCalls, Started
from handrail.run.shown_results import ShownResults
from handrail.run.transcript import Follow, RunMemory, RunTranscript, TakenIds
from handrail.run.words_reader import ModelWordsReader
from handrail.tools.answer_type import AnswerType
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

OnError = Literal["surface", "fail_fast"]
OnWait = Literal["tell", "pause"]
"""When a call waits for a person: tell the model, or end here until the call has its answer."""


OffersOf = Callable[[RegisteredTools, TeamMember | None], OfferableTools]
"""How the tools of a run are offered, to one of its agents if it has several."""


class RunTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, who settles the calls, and how far they may go together."""

    model: Model
    executor: Executor
    limits: Limits
    on_error: OnError
    on_wait: OnWait
    defaults: ModelRequest
    """What every request has besides its messages and tools: temperature, limits of tokens, and so on."""
    valid: tuple[tuple[str, ...], ...]
    """Lists of patterns; each must cover a tool for this model to be offered it, or to call it; an
    empty one leaves none."""
    own_ids: bool
    """Whether every call gets an id from here, so that no two calls of any two runs have the same."""
    new_id: NewId
    plans: Plans = False
    """Whether the model states a plan before anything is read, and whether a person is asked about it."""


_BESIDE_OTHERS = (
    "the answer was given together with other calls, before their results were known; look at them, then give it"
    " again, alone"
)
FINALISE = "The limit of tool calls is reached. Finalise your answer now, without calling tools."


class SingleRun:
    """One run of the loop: its transcript, its calls and its used budget."""

    def __init__(
        self,
        terms: RunTerms,
        conversation: Conversation,
        context: Context,
        emit: Emit,
        follow: Follow | None,
        external: tuple[ToolOffer, ...],
        scratch: ModelScratch,
        returns: AnswerType[Any] | None = None,
        team: Team | None = None,
    ) -> None:
        self._terms = terms
        self._team = team
        self._speaker: TeamMember | None = None
        """Which agent of the team speaks, if there is one."""
        self._executor = terms.executor
        self._limits = terms.limits
        self._budget = RunBudget(self._limits, asyncio.get_running_loop().time(), context.budget)
        deadlines = [each for each in (context.deadline, self._budget.deadline) if each is not None]
        self._context = msgspec.structs.replace(
            context,
            model=terms.model.name,
            deadline=min(deadlines, default=None),
            within=(*context.within, *terms.valid),
            raised={} if terms.on_error == "fail_fast" else None,
            budget=self._budget,
            words_reader=ModelWordsReader(terms.model),
        )
        self._emit = emit
        self.transcript = RunTranscript(conversation, self._executor, self._context, emit, follow)
        self._calls = RunCalls(self._executor, self._limits, self._context, emit)
        self._offers: ToolSelection
        self._elsewhere = ExternalTools(external)
        self._external = external
        self._handoffs: frozenset[str] = frozenset()
        """The names of the calls by which whoever speaks hands over."""
        self._returns = returns
        self._answer: RunAnswer[Any] | None = None
        """The typed answer that it is to end with, if one is asked for."""
        self._scratch = scratch
        self._ids = TakenIds()
        self.memory: RunMemory | None = None
        """What is known of it once it has begun."""
        self._checkpoint = len(conversation)
        self._attempts = 0
        """That failed, at this reply."""
        self._shown_results = ShownResults()
        self._ended = False
        """Whether it was cut off when everything was said."""

    @property
    def conversation(self) -> Conversation:
        return self.transcript.conversation

    async def begin(self, known: RunMemory | None, offers_of: OffersOf, grown_from: Conversation | None = None) -> None:
        """`known` is what is on record of it, if that need not be read."""
        ledger = await self._executor.runs.open(self._context)  # from here on nobody else writes to the run
        self._offers_of = offers_of
        on_record = None if known is None else known.recorded
        alike = await self.transcript.begin(on_record, grown_from)
        self.memory = memory = known or RunMemory(self._ids)
        self._ids = memory.taken
        self._ids.take_up(ledger, self.conversation.messages[alike if known else 0 :])
        if on_record is None or alike < len(on_record):
            memory.selection = None
        if self._team is not None:
            self._take_over(self._team.active(self.conversation.messages))
        else:
            self._offer_tools()
        await self._take_stock(alike)
        if self._executor.policy.after_untrusted == "origins":
            take_up_plan(self.conversation.messages, ledger, self._terms.plans)
        await self.transcript.write_down(soon=True)

    def _offer_tools(self) -> None:
        """What whoever speaks now is offered: its tools, those that its caller runs, and those that settle nothing."""
        offers = self._offers_of(self._executor.runs.tools_of(self.transcript.run), self._speaker)
        memory = self.memory
        selection = None if memory is None else memory.selection
        self._offers = selection if selection is not None and selection.offers is offers else offers.begin()
        if memory is not None:
            memory.selection = self._offers
        beside = self._external
        if self._team is not None and self._speaker is not None:
            handoffs = self._team.offers(self._speaker)
            self._handoffs = frozenset(each.name for each in handoffs)
            beside = (*beside, *handoffs)
        self._elsewhere = ExternalTools(beside)
        if self._returns is not None:
            self._ask_for_answer(self._returns, offers, beside)

    # ── agents that hand over ────────────────────────────────────────────────────────

    def _take_over(self, speaker: TeamMember) -> None:
        """From here on this agent speaks."""
        self._speaker = speaker
        self._limits = self._terms.limits.within(speaker.limits)
        self._terms = msgspec.structs.replace(self._terms, model=speaker.model, defaults=speaker.defaults)
        path = (*self._context.agents[:-1], speaker.name)
        self._context = msgspec.structs.replace(
            self._context, model=speaker.model.name, agents=path, words_reader=ModelWordsReader(speaker.model)
        )
        self._budget.limits = self._limits
        self._calls.take_over(self._limits, self._context, speaker.tools.union(ALWAYS_VALID))
        self._scratch = ModelScratch()
        self._offer_tools()

    async def _follow_handoff(self) -> None:
        """Let another agent speak if the last reply handed over to one."""
        if self._team is None or (speaker := self._team.active(self.conversation.messages)) is self._speaker:
            return
        self._take_over(speaker)
        if self._answer is not None:
            messages = self.conversation.messages
            self._answer.take_stock(messages[last_user_position(messages) + 1 :])
        await self._say_prompt()
        await self._emit(AgentChanged(run=self.transcript.run, agent=speaker.name))

    async def _settle_handoffs(self, calls: tuple[InvocationMessage, ...]) -> list[ToolResult]:
        """The results of calls that hand over. The first one of a reply does."""
        results: list[ToolResult] = []
        for message in calls:
            assert self._team is not None
            error = self._team.refusal(self.conversation.messages, self._limits.handoffs)
            if any(not result.is_error for result in results):
                error = LimitReached("not handed over: a call before this one has handed over already")
            results.append(await self._settle_unrun(message.call, error, accepted(message.call.name)))
            self._calls.count(message.call, results[-1])
        return results

    def _messages(self) -> tuple[Message, ...]:
        """The conversation as whoever speaks reads it."""
        messages = self.conversation.messages
        if self._team is not None and self._speaker is not None:
            messages = self._team.shown(self._speaker, messages)
        withholds = self._executor.policy.flows.untrusted_results == "handles"
        return self._shown_results.without_words(messages) if withholds else messages

    async def _say_prompt(self) -> None:
        """Have the system prompt of an agent that has just taken over on record."""
        if self._team is not None and self._speaker is not None:
            prompt = self._team.unsaid_prompt(self._speaker, self.conversation.messages)
            if prompt is not None:
                await self.transcript.supervise(prompt)

    # ── beginning ────────────────────────────────────────────────────────────────────

    def _ask_for_answer(self, returns: AnswerType[Any], offers: OfferableTools, beside: tuple[ToolOffer, ...]) -> None:
        terms = self._terms
        names = {*self._elsewhere.names, *(name for tool in offers.of for name in (tool.name, tool.scoped_name))}
        tools = bool(offers.names or beside or terms.defaults.builtin_tools)
        asked = terms.defaults.response_schema is returns.schema  # by whoever set the model up
        by_schema = asked or not takes_tools(terms.model) or holds_to_schema(terms.model, tools=tools)
        route: Route = "schema" if by_schema else "tool"
        self._answer = RunAnswer(returns, route, names, self._limits.wrong_answers, alone=not tools)
        self._elsewhere = ExternalTools((*beside, *self._answer.offers))

    async def _take_stock(self, known: int) -> None:
        """A run that is taken up has used something of its limits already, the runs that its calls began included; only
        time does not count on."""
        if not known and self._answer is None:
            return  # nothing of it was said before
        messages = self.conversation.messages
        if 0 < known == len(messages):
            if self._answer is None:
                self._ended = isinstance(messages[-1], AssistantMessage) or ends_with_answer_call(messages)
            else:
                self._ended = self._answer.is_given(messages)
        if self._answer is not None:
            self._answer.take_stock(messages[last_user_position(messages) + 1 : known])
        calls: dict[str, ToolCall] = {}
        for at in range(last_user_position(messages) + 1, known):
            match message := messages[at]:
                case AssistantMessage():
                    self._checkpoint = min(at, self._checkpoint)
                    self._budget.turns += 1
                    self._budget.spend(message.usage)
                case InvocationMessage():
                    calls[message.id] = message.call
                case ResultMessage() if message.invocation_id in calls:
                    self._calls.count(calls[message.invocation_id], message.result)
        left = {message.id for message in unanswered_calls(self.conversation)}
        for id, call in calls.items():
            # A call that has no end yet is made again, and its run then counts for itself.
            if self._calls.begins_runs(call) and (id not in left or self._calls.has_end(id)):
                below = nested_id(self.transcript.run, id)
                self._budget.spend(await usage_of_run(self._executor.runs.history, below))

    async def loop(self, choice: ToolChoice) -> None:
        if self._ended or (self._terms.plans and not await self._state_plan()):
            return
        if (cut_off := unanswered_calls(self.conversation)) and not await self._settle_calls(cut_off, {}):
            return
        await self._say_prompt()
        if self._answer is not None:
            self._answer.check_tries(self.conversation.messages)
            if await self._is_answered(self._answer):
                return
        while self._budget.turns < self._limits.iterations and self._calls.wrong < self._limits.wrong_calls:
            if await self._is_over():
                return
            calls, started = await self._take_turn(choice)
            self._budget.turns += 1
            if calls and not await self._settle_calls(calls, started):
                return
            if not calls and (self._answer is None or await self._is_answered(self._answer)):
                return
        if self._calls.wrong >= self._limits.wrong_calls:
            await self._at_the_limit("wrong calls", self._limits.wrong_calls)
        else:
            await self._at_the_limit("iterations", self._limits.iterations)

    async def _take_turn(self, choice: ToolChoice) -> tuple[tuple[InvocationMessage, ...], Started]:
        # A choice is for the first reply: a model that must call would never come to an answer.
        choice = choice if self._budget.turns == 0 else "auto"
        answer = self._answer
        if answer is None or choice != "auto":
            return await self._ask_model(choice)
        wanted = answer.choice(self.conversation.messages)
        try:
            return await self._ask_model(wanted)
        except BrokenChoice as error:
            if wanted == "auto":
                raise
            answer.broke_choice()
            await self._refuse_answer(answer, (str(error),), "")
            return (), {}

    # ── a plan ──────────────────────────────────────────────────────────────────────

    async def _state_plan(self) -> bool:
        """Have the model state a plan, if it has read nothing yet; False if a limit is reached first.

        Raises:
            InvalidAnswer: It has no more tries.
        """
        ledger = await self._executor.runs.open(self._context)
        tools = plannable_tools(ledger.tools, self._context)
        if not tools or not plan_is_due(self.conversation.messages):
            return True
        if PLAN_TOOL in ledger.tools or PLAN_TOOL in self._elsewhere.names:
            raise UsageError(f"a tool is called {PLAN_TOOL!r}, the name by which plans are stated; rename it")
        if ledger.origins.outside:
            read = ", ".join(list(ledger.origins.outside)[:3])
            await self._emit(Notice(text=f"no plan is made: this run has read words from outside ({read})"))
            return True
        choice: ToolChoice = NamedTool(PLAN_TOOL)
        while plan_is_due(self.conversation.messages):
            calls = unanswered_calls(self.conversation)  # a run that is taken up may have been cut off at one
            if not calls:
                tries = refused_plans(self.conversation.messages)
                if tries >= self._limits.wrong_answers:
                    raise InvalidAnswer(["no plan was stated that can be followed"], tries=tries)
                if await self._is_over():
                    return False
                try:
                    calls = await self._ask_for_plan(choice, tools)
                except BrokenChoice:
                    choice = "auto"  # the service cannot be held to it, so it is told in words
                if not calls:
                    await self.transcript.supervise(STATE_PLAN)
                    continue
            try:
                self.transcript.settled([await self._settle_plan(each.call, tools, ledger) for each in calls])
            except JournalError:
                raise
            except BaseException:
                await run_to_completion(self._wind_up(calls))
                raise
        return True

    async def _ask_for_plan(self, choice: ToolChoice, tools: tuple[Tool, ...]) -> tuple[InvocationMessage, ...]:
        offer = plan_offer(tools)
        await self._executor.runs.record_offer(self._context, (offer.name,), self._emit)
        request = msgspec.structs.replace(
            self._terms.defaults, messages=self._messages(), tools=(offer,), tool_choice=choice, builtin_tools=()
        )
        calls, _ = await self._ask(request, choice, _never)
        return calls

    async def _settle_plan(self, call: ToolCall, tools: tuple[Tool, ...], ledger: CallLedger) -> ToolResult:
        """Take a plan in, or say what is wrong with it. Only the first of a reply counts."""
        if call.name != PLAN_TOOL or (ledger.plan is not None and ledger.plan.id):
            error = LimitReached("not run: first comes the plan, one and alone")
            return await self._settle_unrun(call, error, "")
        asks = self._terms.plans == "ask"
        try:
            plan = run_plan(call, read_plan(call.arguments, tools), ledger.tools, asks=asks)
            answer = PLAN_EMPTY if asks else PLAN_NOTED
            if asks and plan.has_effects:
                answer = PLAN_ALLOWED
                await self._executor.confirm_plan(plan, WHY_ASKED, self._context, self._emit)
        except NeedsConfirmation:
            answer = PLAN_WAITS
        except ToolError as error:
            return await self._settle_unrun(call, error, "")
        ledger.plan = plan
        return await self._settle_unrun(call, None, answer)

    # ── a typed answer ───────────────────────────────────────────────────────────────

    async def _is_answered(self, answer: RunAnswer[Any]) -> bool:
        """Whether the model's last words are the answer. If they are not, it is told why; it answers again.

        Raises:
            InvalidAnswer: It has no more tries.
        """
        last = self.conversation.messages[-1] if self.conversation.messages else None
        if not isinstance(last, AssistantMessage):
            return False
        problems = answer.problems(last)
        if not problems:
            return True
        await self._refuse_answer(answer, problems, last.text, last.stop)
        await self.transcript.supervise(answer.word(problems))
        return False

    async def _refuse_answer(
        self, answer: RunAnswer[Any], problems: tuple[str, ...], text: str, stop: str = "end"
    ) -> None:
        answer.refuse(problems, text, stop)
        await self._emit(Notice(text=f"answer {answer.refused} was refused: {'; '.join(problems)}"))

    async def _settle_answers(
        self, answer: RunAnswer[Any], calls: tuple[InvocationMessage, ...], *, alone: bool
    ) -> list[ToolResult]:
        """The results of calls that give the answer. The first that fits is accepted, if no others are beside it."""
        results: list[ToolResult] = []
        for message in calls:
            error: ToolError | None = None
            if not alone:
                error = InvalidArguments(_BESIDE_OTHERS)
            elif any(not result.is_error for result in results):
                error = LimitReached("the answer was given already; this one was not used")
            else:
                try:
                    answer.type.read_arguments(message.call.arguments)
                except InvalidArguments as invalid:
                    error = invalid
            results.append(await self._settle_unrun(message.call, error, ACCEPTED))
            self._calls.count(message.call, results[-1])
        return results

    async def _settle_unrun(self, call: ToolCall, error: ToolError | None, content: str) -> ToolResult:
        """Accept or refuse a call for which nothing is run."""
        executor, tracer = self._executor, self._executor.tracer

        async def settle() -> ToolResult:
            if error is None:
                return await executor.accept(call, content, self._context, self._emit)
            return await executor.refuse(call, error, self._context, self._emit)

        if tracer is None:
            return await settle()
        with tracer.call(call, self._context) as span:
            result = await settle()
            span.settled(result, call.name)
            return result

    # ── one reply and its calls ──────────────────────────────────────────────────────

    async def _ask_model(self, choice: ToolChoice) -> tuple[tuple[InvocationMessage, ...], Started]:
        terms = self._terms
        messages = self._messages()
        shown = self._offers.shown(self.conversation.messages, choice)
        await self._executor.runs.record_offer(self._context, (*shown.names, *self._elsewhere.names), self._emit)
        request = msgspec.structs.replace(
            terms.defaults,
            messages=messages,
            tools=self._elsewhere.beside(shown),
            tool_choice=choice,
            scratch=self._scratch,
        )
        if self._answer is not None and self._answer.route == "schema":
            type = self._answer.type
            request = msgspec.structs.replace(request, response_schema=type.schema, response_nulls=type.takes_nulls)
        return await self._ask(request, choice, _never if choice == "none" else self._early)

    async def _ask(
        self, request: ModelRequest, choice: ToolChoice, early: Early
    ) -> tuple[tuple[InvocationMessage, ...], Started]:
        terms = self._terms
        self._attempts = 0
        self._calls.await_reply()
        reply = ModelReply(self._ids, terms.new_id, early, own_ids=terms.own_ids)
        try:
            whole, message = await self._reply(reply, request)
        except ModelError as error:
            await self._failed(AttemptFailed.of(error, terms.model.name), last=True)
            raise
        calls = tuple(reply.invocations) if whole and choice != "none" else ()
        self._budget.spend(message.usage)
        await self._take_in(message, calls, reply)
        if not whole:
            await self._is_over()
        return calls, reply.started

    def _early(self, call: ToolCall, emit: Emit) -> asyncio.Task[ToolResult] | None:
        return None if call.name in self._elsewhere.names else self._calls.early(call, emit)

    async def _reply(self, reply: ModelReply, request: ModelRequest) -> tuple[bool, AssistantMessage]:
        tracer = self._executor.tracer
        if tracer is None:
            return await self._read(reply, request), reply.message(self._executor.runs.now())
        with tracer.turn(self.transcript.run, self._terms.model, request, self._context) as span:
            whole, message = await self._read(reply, request), reply.message(self._executor.runs.now())
            span.replied(message)
            if self._answer is not None and not reply.invocations and self._answer.problems(message):
                span.refused(InvalidAnswer.code)
            return whole, message

    async def _read(self, reply: ModelReply, request: ModelRequest) -> bool:
        """Whether it came whole: the limit of seconds may cut it."""
        if self._budget.deadline is None:
            await reply.read(self._terms.model, request, self._emit, self._failed)
            return True
        try:
            async with time_limit_at(self._budget.deadline) as time:
                await reply.read(self._terms.model, request, self._emit, self._failed)
        except TimeoutError:
            if not time.expired():
                raise
            return False
        return True

    async def _take_in(
        self, message: AssistantMessage, calls: tuple[InvocationMessage, ...], reply: ModelReply
    ) -> None:
        try:
            settled_here = bool(calls) and len(self._elsewhere.left_here(calls)) == len(calls)
            await self.transcript.reply(message, calls, soon=settled_here)
        except asyncio.CancelledError:
            self.transcript.grow(message, *calls)
            await run_to_completion(self._wind_up(calls, reply))
            raise
        except BaseException:
            await reply.abandon()
            raise
        self.transcript.grow(message, *calls)

    async def _failed(self, attempt: AttemptFailed, *, last: bool = False) -> None:
        self._attempts += 1
        await self.transcript.failed(attempt, self._attempts, last=last)

    async def _settle_calls(self, calls: tuple[InvocationMessage, ...], started: Started) -> bool:
        """Every call gets exactly one result, the real one if it finished, whatever happens meanwhile.

        False if a call waits for a person and the run is to wait with it, or is answered elsewhere; then that call
        has none yet.
        """
        here = self._elsewhere.left_here(calls)
        answers = self._answers_among(calls)
        handoffs = tuple(each for each in calls if each.call.name in self._handoffs)
        left = len(here) + len(answers) + len(handoffs) < len(calls)
        try:
            results = await self._calls.settle_reply(here, started)
            given: list[ToolResult] = []
            passed_on = await self._settle_handoffs(handoffs)
            if self._answer is not None and answers:
                given = await self._settle_answers(self._answer, answers, alone=len(answers) == len(calls))
        except JournalError:
            raise  # without a record there is no answer to take in; each call is found out when the run is taken up
        except BaseException:
            await run_to_completion(self._wind_up(calls))
            raise
        settled = [result for result in results if result.outcome != "needs_confirmation"]
        waiting = [result for result in results if result.outcome == "needs_confirmation"]
        paused = bool(waiting) and self._terms.on_wait == "pause"
        if paused or left:
            await self.transcript.tell(_in_order(calls, settled if paused else results, given, passed_on))
        else:
            self.transcript.settled(_in_order(calls, settled, given, passed_on))
            await self.transcript.tell(waiting)
        if self._terms.on_error == "fail_fast":
            await self._fail_on(settled if paused else results)
        if paused or left or await self._accepted(given):
            return False
        await self._follow_handoff()
        return True

    def _answers_among(self, calls: tuple[InvocationMessage, ...]) -> tuple[InvocationMessage, ...]:
        if self._answer is None:
            return ()
        return tuple(each for each in calls if each.call.name == self._answer.name)

    async def _accepted(self, given: list[ToolResult]) -> bool:
        """Whether a call of this reply gave the answer.

        Raises:
            InvalidAnswer: It did not, and there are no more tries.
        """
        if self._answer is None or not given:
            return False
        if any(not result.is_error for result in given):
            return True
        problems = tuple(result.text for result in given)
        arguments = self._arguments_of(given[-1])
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        await self._refuse_answer(self._answer, problems, text)
        return False

    async def _wind_up(self, calls: tuple[InvocationMessage, ...], reply: ModelReply | None = None) -> None:
        """The caller is gone: end what is under way, and take in what became of each call."""
        if reply is not None:
            await reply.abandon()
        answers = self._answers_among(calls)
        handoffs = tuple(each for each in calls if each.call.name in self._handoffs)
        ours = (*self._elsewhere.left_here(calls), *answers, *handoffs)
        self.transcript.settled(_in_order(calls, await self._calls.known(ours)))

    async def _fail_on(self, results: list[ToolResult]) -> None:
        failed = next((result for result in results if result.is_error), None)
        if failed is None:
            return
        await self._emit(Notice(text=f"tool {failed.name!r} failed: {failed.text}"))
        arguments = self._arguments_of(failed)
        raised = self._context.raised or {}
        await self.transcript.take_back(self._checkpoint)
        raise ToolFailed(failed.name, failed.outcome, failed.text, arguments) from raised.get(failed.tool_call_id)

    def _arguments_of(self, result: ToolResult) -> dict[str, Any] | str:
        """What the call of a result was made with, without its secrets."""
        asked = (each for each in reversed(self.conversation.messages) if isinstance(each, InvocationMessage))
        call = next((each.call for each in asked if each.id == result.tool_call_id), None)
        if call is None:
            return {}
        tools = self._executor.runs.tools_of(self.transcript.run)
        masked = tools.find(call.name).masked(call.arguments) if call.name in tools else call.arguments
        found: dict[str, Any] | str = redact(masked)
        return found

    async def _is_over(self) -> bool:
        """Whether a limit other than the iterations is reached; then the run ends with what it has."""
        reached = self._budget.exceeded(asyncio.get_running_loop().time())
        if reached is None:
            return False
        if self._limits.on_limit == "error" or self._answer is not None:  # half an answer is of no type
            raise LimitExceeded(*reached)
        await self._emit(Notice(text=f"stopped at the limit of {reached[1]:g} {reached[0]}"))
        return True

    async def _at_the_limit(self, limit: str, value: int) -> None:
        match self._limits.on_limit:
            case "stop" if self._answer is None:
                pass
            case "error" | "stop":
                raise LimitExceeded(limit, value)
            case "finalise":
                if self._answer is not None:
                    await self._finalise_answer(self._answer, limit, value)
                elif not await self._is_over():
                    await self.transcript.supervise(FINALISE)
                    await self._finalise(limit, value)

    async def _finalise(self, limit: str, value: int) -> None:
        try:
            await self._ask_model("none")
        except BrokenChoice:  # it cannot do without; what was said and done so far is the answer
            await self._emit(Notice(text=f"stopped at the limit of {value} {limit}: the model goes on calling tools"))

    async def _finalise_answer(self, answer: RunAnswer[Any], limit: str, value: int) -> None:
        """Ask for the answer and nothing else, as often as there are tries left.

        Raises:
            InvalidAnswer: No answer fits.
            LimitExceeded: Another limit is reached, or the model goes on calling tools.
        """
        since = self.conversation.messages[last_user_position(self.conversation.messages) + 1 :]
        told = any(isinstance(each, SupervisorMessage) and each.text == answer.finalise for each in since)
        while not await self._is_over():
            if not told:  # a run that is taken up here was told before
                await self.transcript.supervise(answer.finalise)
                told = True
            try:
                calls, _ = await self._ask_model(NamedTool(answer.name) if answer.route == "tool" else "none")
            except BrokenChoice:
                raise LimitExceeded(limit, value) from None
            if not calls:
                if await self._is_answered(answer):
                    return
            elif self._answers_among(calls) != calls:
                await run_to_completion(self._wind_up(calls))
                raise LimitExceeded(limit, value)
            elif not await self._settle_calls(calls, {}):
                return


def _in_order(calls: tuple[InvocationMessage, ...], *results: list[ToolResult]) -> list[ToolResult]:
    """The results in the order of their calls, as the record gives them."""
    if len(results) > 1 and not any(results[1:]):
        return results[0]
    by_id = {result.tool_call_id: result for each in results for result in each}
    return [by_id[message.id] for message in calls if message.id in by_id]


def _never(call: ToolCall, emit: Emit) -> None:
    """Start no call early."""
