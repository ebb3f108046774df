"""An agent: a model with instructions, tools and limits, as a value. A session speaks with it; a call may run it.

    researcher = Agent(llm, name="researcher", description="Finds things out.", tools=[search])
    Session(researcher)                                     speaks with it
    Session(llm, tools=[researcher.as_tool()])              lets a model give it tasks

An agent that a call runs has a run of its own, named after the call, in the record of its caller. So a call that was
cut off takes the run up where it was, and nothing that its tools did is done again. Its calls are put to its caller's
approver; it has its caller's rights at most, and no more of the budget than its caller has left.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

from handrail.core.context import Context
from handrail.core.errors import (
    Cancelled,
    InvalidDefinition,
    LimitExceeded,
    LimitReached,
    ModelError,
    ToolError,
    UsageError,
)
from handrail.core.events import AgentEvent, Emit, Event, ignore_event
from handrail.core.invocation import Invocation
from handrail.core.messages import AssistantMessage, Conversation, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.core.tasks import run_to_completion
from handrail.core.usage_checks import check_model
from handrail.execute.executor import Executor
from handrail.run.answers import checked_type, ends_with_answer_call, read_answer
from handrail.run.code.callers import CallWaitsForPerson
from handrail.run.handoffs import HAND_OFF, Team, TeamMember
from handrail.run.history import conversation_of, unanswered_calls
from handrail.run.limits import Limits, RunBudget
from handrail.run.runner import Runner
from handrail.tools.answer_type import AnswerType
from handrail.tools.definition import ToolDefinition
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import flattened_tools, prepared_tools, registered
from handrail.tools.tool import Tool

_DAY = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")
_SCHEMA = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "The task, with everything that is needed to do it."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class ModelWithDefaults(Protocol):
    """A model and what each of its requests has, as an `LLM` is."""

    @property
    def model(self) -> Model: ...
    @property
    def defaults(self) -> ModelRequest: ...


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An agent: a model with a system prompt, tools and limits. It has no conversation.

    The owner of the model closes it.
    """

    provider: Model | ModelWithDefaults
    """A model, or an `LLM`."""
    _: KW_ONLY
    name: str
    description: str = ""
    """What it is good for, for the models that may call it."""
    system_prompt: str | None = None
    tools: Iterable[Any] = ()
    """Functions, tools, ensembles and registered sets; those of other agents by `as_tool`."""
    limits: Limits = field(default_factory=Limits)
    handoffs: Iterable[Agent | str] = ()
    """The agents that it may hand the conversation over to; one that it is handed over by, by its name."""

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: It has no model, or something is wrong with its name, its tools or its handoffs.
        """
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(f"the name of an agent has up to 48 letters, digits, '_' and '-'; {self.name!r} is none")
        if isinstance(self.provider, str):
            name = self.provider
            raise UsageError(f"an agent closes no model, so it takes no name; write Agent(create_llm({name!r}), …)")
        check_model(self.model)
        object.__setattr__(self, "tools", tuple(flattened_tools(self.tools)))
        object.__setattr__(self, "handoffs", tuple(self.handoffs))
        for each in self.handoffs:
            if not isinstance(each, Agent | str):
                raise UsageError(f"an agent hands over to agents, or to their names; {each!r} is neither")
            if each == self.name:
                raise UsageError(f"the agent {each!r} hands over to itself; name another one")
        tools = registered(*self.all_tools)  # what is wrong with them is said now
        for each in self.team if self.handoffs else ():
            if (offered := f"{HAND_OFF}{each.name}") in tools:
                raise UsageError(f"by {offered!r} agents hand over to {each.name!r}, so rename the tool of that name")

    @property
    def team(self) -> tuple[Agent, ...]:
        """This agent and all that the conversation may be handed over to, from one to the next.

        Raises:
            UsageError: Two of them have the same name.
        """
        found: dict[str, Agent] = {self.name: self}
        left = [self]
        while left:
            for each in left.pop().handoffs:
                if isinstance(each, str) or found.get(each.name) is each:
                    continue
                if each.name in found:
                    raise UsageError(f"two agents are called {each.name!r}; rename one")
                found[each.name] = each
                left.append(each)
        return tuple(found.values())

    @property
    def all_tools(self) -> tuple[Any, ...]:
        """The tools of the whole team, each once."""
        return tuple({id(each): each for agent in self.team for each in agent.tools}.values())

    def as_team(self) -> Team | None:
        """The team as the loop uses it, once the tools are prepared; None if the agent hands over to nobody.

        Raises:
            UsageError: An agent hands over to a name that no agent has.
        """
        if not self.handoffs:
            return None
        members = {agent.name: agent._as_member() for agent in self.team}
        for name, member in members.items():
            if missing := [each for each in member.handoffs if each not in members]:
                known = ", ".join(map(repr, members))
                raise UsageError(f"the agent {name!r} hands over to {missing[0]!r}, which is none of {known}")
        return Team(members, self.name)

    def _as_member(self) -> TeamMember:
        return TeamMember(
            name=self.name,
            description=self.description,
            model=self.model,
            defaults=self.defaults,
            system_prompt=self.system_prompt,
            tools=frozenset(tool.scoped_name for tool in registered(*self.tools)),
            limits=self.limits,
            handoffs=tuple(dict.fromkeys(each if isinstance(each, str) else each.name for each in self.handoffs)),
        )

    @property
    def model(self) -> Model:
        """The model that answers; that of its `LLM` if it was given one."""
        provider: Any = self.provider
        found: Model = getattr(provider, "model", provider)
        return found

    @property
    def defaults(self) -> ModelRequest:
        """What each of its requests has besides messages and tools."""
        found: ModelRequest = getattr(self.provider, "defaults", ModelRequest(messages=()))
        return found

    def as_tool(self, name: str | None = None, description: str | None = None, *, returns: Any = None) -> Tool[Any]:
        """A tool that has this agent do a task and gives its answer. Each call is a conversation of its own.

        Args:
            name: What models call it by; the agent's own name unless given.
            description: What models are told of it; the agent's own unless given.
            returns: A type: then the answer is a value of it, and the result of the call is its JSON.

        Raises:
            InvalidDefinition: There is no description: a model could not know when to call it.
        """
        name, description = name or self.name, description or self.description
        if not description:
            raise InvalidDefinition(f"no model would know when to call the agent {name!r}; give it a description")
        definition = ToolDefinition(name, description, _SCHEMA, timeout=_DAY, untrusted=self._reads_from_outside)
        handler = _AgentHandler(self, checked_type(returns))
        return Tool(definition, handler, style="invocation", isolation="loop", share=False, begins_runs=True)

    @property
    def _reads_from_outside(self) -> bool:
        """Whether what it says may come from outside. What an ensemble offers is known only once it is prepared."""
        items = self.all_tools
        known = registered(*items)
        unknown = any(isinstance(each, Ensemble) and each.state != "prepared" for each in items)
        return unknown or any(tool.definition.untrusted for tool in known)

    def briefed(self, conversation: Conversation, at: int = 0) -> Conversation:
        """A conversation that begins with what it is told first."""
        return conversation if self.system_prompt is None else conversation.supervised(self.system_prompt, at)


@dataclass(frozen=True, slots=True)
class _AgentHandler:
    """Runs an agent for a call."""

    agent: Agent
    returns: AnswerType[Any] | None

    def check_deps(self, deps: Any, deps_type: Any = None) -> None:
        """
        Raises:
            UsageError: They are not what a tool of the agent needs. Those of ensembles are known later.
        """
        known = registered(*(each for each in self.agent.all_tools if not isinstance(each, Ensemble)))
        known.check_deps(deps, deps_type)

    async def __call__(self, invocation: Invocation) -> Any:
        """
        Raises:
            ToolError: It came to no answer, and why.
        """
        agent = self.agent
        async with prepared_tools(agent.all_tools) as tools:
            executor, context, listener = await invocation.begin_run(tools, agent.name)
            async with _closed(executor, context) as end:
                runner = Runner(
                    agent.model,
                    executor,
                    _limits(agent, context),
                    # Without a record, nothing could be taken up that waits.
                    on_wait="pause" if executor.runs.are_recorded else "tell",
                    defaults=agent.defaults,
                    new_id=executor.new_id,
                    team=agent.as_team(),
                )
                conversation = conversation_of(await executor.runs.history(context.run))
                if not conversation.messages:
                    now = executor.runs.now()
                    conversation = agent.briefed(Conversation(), now).say(invocation.arguments["prompt"], at=now)
                emit = _telling(context, listener)
                conversation = await self._run(runner, conversation, context, emit)
                if unanswered_calls(conversation):
                    end.reason = None
                    raise CallWaitsForPerson(_waiting(agent.name, executor, context))
                end.reason = "done"
                return self._answer(conversation)

    async def _run(self, runner: Runner, conversation: Conversation, context: Context, emit: Emit) -> Conversation:
        name, known = self.agent.name, [conversation]
        try:
            return await runner.run(conversation, context, emit, returns=self.returns, follow=known.append)
        except LimitExceeded as error:
            raise LimitReached(f"the agent {name!r} came to no answer: {error}{_done(known[-1])}") from error
        except ModelError as error:
            raise ToolError(error.code, f"the agent {name!r} came to no answer: {error}{_done(known[-1])}") from error
        except asyncio.CancelledError:
            raise Cancelled(f"the agent {name!r} was cancelled before it had an answer{_done(known[-1])}") from None

    def _answer(self, conversation: Conversation) -> Any:
        messages = conversation.messages
        if self.returns is not None:
            return read_answer(messages, self.returns)
        last = messages[-1]
        has_spoken = isinstance(last, AssistantMessage) and bool(last.text or last.media)
        if not has_spoken and not ends_with_answer_call(messages):
            if isinstance(last, AssistantMessage) and last.stop != "max_tokens":
                words = f"the agent {self.agent.name!r} came to no answer: its model said nothing{_done(conversation)}"
                raise ToolError(ModelError.code, words)
            raise LimitReached(
                f"the agent {self.agent.name!r} stopped at a limit without an answer{_done(conversation)}"
            )
        return conversation.text


class _RunEnd:
    """The end of an agent's run, for the record; None if it has not ended."""

    reason: str | None = "failed"


@asynccontextmanager
async def _closed(executor: Executor, context: Context) -> AsyncIterator[_RunEnd]:
    end = _RunEnd()
    try:
        yield end
    except Cancelled:
        end.reason = "stopped"
        raise
    finally:
        try:
            if end.reason is not None:
                await run_to_completion(executor.finish(context.run, end.reason))
        finally:
            executor.runs.let_go_all()


def _limits(agent: Agent, context: Context) -> Limits:
    budget = context.budget
    return budget.limits_below(agent.limits) if isinstance(budget, RunBudget) else agent.limits


def _telling(context: Context, listener: Emit) -> Emit:
    """Tells whoever listens to the caller what happens in the run of an agent, and whose run it is."""
    if listener is ignore_event:
        return listener

    async def tell(event: Event) -> None:
        if not isinstance(event, AgentEvent):
            event = AgentEvent(agents=context.agents, run=context.run, event=event)
        await listener(event)

    return tell


def _waiting(name: str, executor: Executor, context: Context) -> str:
    ledger = executor.runs.find(context.run)
    asked = () if ledger is None else [each for each in ledger.requests.values() if each.request not in ledger.answers]
    calls = ", ".join(f"{each.tool!r} (request {each.request})" for each in asked)
    return f"the agent {name!r} waits for a person to confirm {calls or 'a call'}"


def _done(conversation: Conversation) -> str:
    """What the calls of an agent came to by then, so that nobody takes it for nothing."""
    results = [message.result for message in conversation.messages if isinstance(message, ResultMessage)]
    if not results:
        return "; it had called nothing"
    shown = ", ".join(f"{result.name} ({result.outcome})" for result in results[-_SHOWN:])
    return f"; by then it had called {'… ' if len(results) > _SHOWN else ''}{shown}, and what was done stays done"


_SHOWN = 20
"""Calls, the last ones."""
