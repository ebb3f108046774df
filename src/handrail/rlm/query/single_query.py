"""One query, from its words to its completion: a run of the runner.

It has an answer whatever becomes of it: that a model failed, or that a limit was reached, is in the
completion. An answer that merely looks like an error is an answer: the origin of these functions guessed
from words such as "[rate_limited]", and so lost texts about such errors.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.context import Context
from handrail.core.errors import HandrailError, JournalError, LimitExceeded, ModelError, UsageError, describe_exception
from handrail.core.ids import NewId
from handrail.core.jsontext import object_or_text
from handrail.core.messages import AssistantMessage, Conversation
from handrail.core.model_request import ModelRequest, ToolChoice, ToolOffer
from handrail.core.ports import Clock, Journal, Model, Tracer
from handrail.core.redact import redact_text
from handrail.core.tasks import run_to_completion
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.rlm.code_policy import policy_of_code
from handrail.rlm.query.spending import MeteredModel, QueryMeter, Spending
from handrail.rlm.values import LMRequest, RLMChatCompletion
from handrail.run import history
from handrail.run.limits import Limits
from handrail.run.runner import Runner
from handrail.run.single_run import OnWait
from handrail.tools.registry import RegisteredTools

logger = logging.getLogger(__name__)

NO_TOOLS = RegisteredTools(())
_NOWHERE = Context()
WAITING = "needs_confirmation"
"""The `error_type` of a completion whose run waits for a person."""
_WAITS = "a call of its tools waits for a person's approval; give it, and resume the run"
_UNREPLIED = "it was cut off before the model had continued the text that its prompt ends with; ask again"


class UnknownModel(UsageError):
    """A query names a model that there is not."""


class ModelQuery(Struct, frozen=True, kw_only=True):
    """What is asked, read and checked."""

    request: LMRequest
    conversation: Conversation
    schema: dict[str, Any] | None = None
    tools: RegisteredTools = NO_TOOLS
    external: tuple[ToolOffer, ...] = ()
    """Tools whose calls are left to the asker."""
    choice: ToolChoice = "auto"
    iterations: int
    run: str = ""
    """The run on record, if the query was asked before."""
    context: Context = _NOWHERE
    """The caller's context."""


@dataclass(slots=True)
class QueryAsker:
    """Keeps what queries share: an executor without tools, and a runner for each model."""

    spend: Spending
    journal: Journal | None
    policy: Policy
    iterations: int
    tracer: Tracer | None
    clock: Clock
    new_id: NewId
    _executor: Executor | None = None
    _plain: dict[int, tuple[Model, Runner]] = field(default_factory=dict)
    """Whether a query is like most: without tools or anything else of its own."""

    async def answer(self, query: ModelQuery, model: Model) -> RLMChatCompletion:
        """The completion of a query. Only a record that cannot be kept is raised, as `JournalError`."""
        run = query.run or self._run_of(query)
        meter = QueryMeter(self.spend, model.name, len(query.conversation))
        completion = RLMChatCompletion(
            root_model=model.name, prompt=query.request.prompt, response="", usage_summary=meter.summary, run=run
        )
        self.spend.begin(query.run)
        try:
            if query.tools:
                conversation = await self._with_tools(query, model, run, meter)
            else:
                executor = self._without_tools()
                conversation = await self._run(executor, self._runner(executor, model, query), query, run, meter)
        except JournalError:
            raise
        except LimitExceeded as error:
            if error.limit != "iterations":
                return completion_of_error(completion, error)
            return failed_completion(
                completion, "tool_loop_error", f"Maximum tool iterations ({query.iterations}) exceeded"
            )
        except Exception as error:
            return completion_of_error(completion, error)
        finally:
            self.spend.end()
        completion.response = conversation.text
        if query.external:
            _leave_calls(completion, conversation)
        elif _waits(query, conversation):
            return failed_completion(completion, WAITING, _WAITS)
        return completion

    def _run_of(self, query: ModelQuery) -> str:
        """A query that nobody writes down and that makes no calls needs no run of its own."""
        calls = query.tools or query.external
        plain = self.journal is None and not calls and isinstance(query.request.prompt, str)
        return "" if plain else self.new_id("run")

    def _without_tools(self) -> Executor:
        if self._executor is None:
            self._executor = Executor(NO_TOOLS, journal=self.journal, tracer=self.tracer, clock=self.clock)
        return self._executor

    async def _with_tools(self, query: ModelQuery, model: Model, run: str, meter: QueryMeter) -> Conversation:
        journal, tracer, clock = self.journal, self.tracer, self.clock
        async with Executor(
            query.tools, policy=policy_of_code(self.policy), journal=journal, tracer=tracer, clock=clock
        ) as executor:
            return await self._run(executor, self._runner(executor, model, query), query, run, meter)

    def _runner(self, executor: Executor, model: Model, query: ModelQuery) -> Runner:
        own = bool(query.tools) or query.schema is not None or query.iterations != self.iterations
        if not own and id(model) in self._plain:
            return self._plain[id(model)][1]
        defaults = ModelRequest(messages=(), response_schema=query.schema)
        limits = Limits(
            iterations=query.iterations,
            on_limit="error",
            # What a query is limited by is its iterations, and nothing ends it before.
            same_answer=query.iterations * 1_000,
            wrong_calls=query.iterations * 1_000,
        )
        # A handler in a REPL waits when its cell does; one that is called here cannot be taken up by calling it again.
        on_wait: OnWait = "pause" if any(tool.replays for tool in query.tools) else "tell"
        runner = Runner(MeteredModel(model, self.spend), executor, limits, on_wait=on_wait, defaults=defaults)
        if not own:
            self._plain[id(model)] = model, runner
        return runner

    async def _run(
        self, executor: Executor, runner: Runner, query: ModelQuery, run: str, meter: QueryMeter
    ) -> Conversation:
        context = msgspec.structs.replace(query.context, run=run) if run else query.context
        reason: str | None = "failed"
        try:
            conversation = query.conversation
            if self.journal is not None and query.run:
                conversation = await self._begun(executor, query, context)
            conversation = await runner.run(
                conversation, context, tool_choice=query.choice, follow=meter.take, external=query.external
            )
            meter.take(conversation)
            reason = None if _waits(query, conversation) else "done"  # one that waits is not at its end
            return conversation
        except asyncio.CancelledError:
            reason = "stopped"
            raise
        finally:
            if self.journal is not None and reason is not None:
                await run_to_completion(executor.finish(run, reason))
            elif run and reason is not None:
                await executor.finish(run, reason)

    async def _begun(self, executor: Executor, query: ModelQuery, context: Context) -> Conversation:
        """What is said, or what was said before when this is taken up again."""
        await executor.runs.known_calls(context)  # from here on nobody else works on the run
        events = await executor.runs.history(context.run)
        recorded = history.conversation_of(events)
        if len(recorded) < len(query.conversation):
            return query.conversation
        if len(recorded) == len(query.conversation) and isinstance(recorded.messages[-1], AssistantMessage):
            raise HandrailError(_UNREPLIED)  # the runner takes what a model said last for its answer
        return recorded

    async def aclose(self) -> None:
        if self._executor is not None:
            await self._executor.aclose()


def failed_completion(
    completion: RLMChatCompletion, kind: str, message: str, status: int | None = None
) -> RLMChatCompletion:
    """The completion with the reason why it has no answer."""
    completion.error, completion.error_type, completion.status_code = redact_text(message), kind, status
    return completion


def completion_of_error(completion: RLMChatCompletion, error: Exception) -> RLMChatCompletion:
    """The completion with what it failed by. A model is anybody's code, and whatever else was asked goes on."""
    match error:
        case LimitExceeded():
            return failed_completion(completion, "limit_exceeded", str(error))
        case ModelError():
            return failed_completion(completion, error.code, str(error), error.status)
        case UnknownModel():
            return failed_completion(completion, "unknown_model", str(error))
        case HandrailError():
            return failed_completion(completion, "query_error", str(error))
    logger.error("a query failed in a way that is not known", exc_info=error)
    return failed_completion(completion, "query_error", describe_exception(error))


def _waits(query: ModelQuery, conversation: Conversation) -> bool:
    """Whether it stopped at a call that needs a person's approval."""
    return bool(query.tools and history.unanswered_calls(conversation))


def _leave_calls(completion: RLMChatCompletion, conversation: Conversation) -> None:
    calls = [each.call for each in history.unanswered_calls(conversation)]
    if calls:
        completion.tool_calls = [
            {"id": call.id, "name": call.name, "arguments": object_or_text(call.arguments)} for call in calls
        ]
