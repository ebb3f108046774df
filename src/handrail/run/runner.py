"""The runner: the only thing that loops. It pushes events, so streaming and not are the same code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Context
from handrail.core.errors import HandrailError, UsageError
from handrail.core.events import Emit, ignore_event
from handrail.core.ids import NewId, new_id
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest, ModelScratch, ToolChoice, ToolOffer
from handrail.core.ports import Model, Tracer
from handrail.core.usage_checks import check_model
from handrail.execute.executor import Executor
from handrail.run.answers import checked_type
from handrail.run.handoffs import Team, TeamMember
from handrail.run.limits import Limits
from handrail.run.offering import ALWAYS_VALID, NO_PROGRAMS, ExternalTools, OfferableTools, Offering, Programs
from handrail.run.planning import Plans, checked_plans
from handrail.run.single_run import OnError, OnWait, RunTerms, SingleRun
from handrail.run.transcript import Follow, RunMemory
from handrail.tools.registry import RegisteredTools

_REMEMBERED = 64
"""Runs of which a runner knows what is on record, without reading it."""


class Runner:
    """The loop: a model, an executor, and their limits."""

    def __init__(
        self,
        model: Model,
        executor: Executor,
        limits: Limits = Limits(),
        *,
        on_error: OnError = "surface",
        on_wait: OnWait = "tell",
        defaults: ModelRequest = ModelRequest(messages=()),
        offering: Offering = Offering(),
        valid: tuple[tuple[str, ...], ...] = (),
        own_ids: bool = False,
        new_id: NewId = new_id,
        programs: Programs = NO_PROGRAMS,
        team: Team | None = None,
        plans: Plans = False,
    ) -> None:
        """`team` are agents that hand conversations on to each other; then each speaks with its own model and tools.
        With `plans`, a run begins with a plan: before anything is read, the model states which tools it will use and
        what will fill their arguments; with "ask", a person allows it.

        Raises:
            UsageError: The first is no model, the second no executor, or plans cannot be followed; with what to write
                instead.
        """
        check_model(model)
        if not isinstance(executor, Executor):
            raise UsageError("a runner calls tools through an executor; write Runner(model, Executor(tools))")
        self._terms = RunTerms(
            model=model,
            executor=executor,
            limits=limits,
            on_error=on_error,
            on_wait=on_wait,
            defaults=defaults,
            valid=tuple((*patterns, *ALWAYS_VALID) if patterns else () for patterns in valid),
            own_ids=own_ids,
            new_id=new_id,
            plans=checked_plans(plans, executor),
        )
        self._team = team
        self._team_offers: dict[str, OfferableTools] = {}
        self._offering = offering
        self._programs = programs
        offering.equip(executor, programs)
        self._offers = OfferableTools.shared(offering, executor.tools, model, self._terms.valid, programs)
        self._known: BoundedMemory[str, RunMemory] = BoundedMemory(_REMEMBERED)
        """What is on record of the latest runs; that of an older one is read again if it is taken up."""
        self._scratch = ModelScratch(getattr(model, "scratch", None))
        """What was made of the conversation that it ran last, for the next run of the same one."""

    @property
    def may_call(self) -> frozenset[str]:
        """The names of the tools that runs which begin now are offered, or come to be."""
        return self._offers_of(self._terms.executor.tools).names

    async def run(
        self,
        conversation: Conversation,
        context: Context = Context(),
        emit: Emit = ignore_event,
        *,
        tool_choice: ToolChoice = "auto",
        follow: Follow | None = None,
        external: tuple[ToolOffer, ...] = (),
        returns: Any = None,
        grown_from: Conversation | None = None,
    ) -> Conversation:
        """Go on until the model calls no tool: the conversation with everything that was said and done.

        A conversation that ends in calls without results, as that of a run that was cut off or
        that waited for a person's decision, is taken up there. `follow` is told of every change, also
        when the run is cancelled. Tools that are `external` are offered beside those of the executor
        and run by whoever asks here: the run ends at a call of one, without a result of that call.
        What it raises has the conversation so far as its attribute `conversation`.

        With `returns`, a type, the run ends with an answer of that type, which `answer_of` reads from the
        conversation: by the service's own schemas for replies where it has them, else by a call of `final_answer`.

        `grown_from` is for a caller who only added to the conversation that the last run of this kind returned: what
        that had is not looked through again.

        Raises:
            UsageError: A tool needs other dependencies than those in the context.
            InvalidAnswer: No answer was of the type asked for.
            LimitExceeded: A limit is reached and the limits say to raise, or there is no typed answer yet.
            ToolFailed: A tool failed, under `fail_fast`.
            ModelError: The model gave no usable reply.
        """
        if not isinstance(conversation, Conversation):
            raise UsageError("a run continues a conversation; write Conversation().say('...')")
        executor = self._terms.executor
        executor.tools.check_deps(executor.deps if context.deps is None else context.deps)
        wanted = checked_type(returns)
        with nullcontext(context) if executor.tracer is None else self._traced(context, executor.tracer) as traced:
            scratch = ModelScratch(self._scratch)
            run = SingleRun(self._terms, conversation, traced, emit, follow, external, scratch, wanted, self._team)
            return await self._run(run, tool_choice, grown_from)

    def recorded(self, run: str) -> Conversation | None:
        """The conversation of a run as the record had it when it was last worked on here; None if that is forgotten."""
        known = self._known.get(run)
        return None if known is None else known.recorded

    def first_request(
        self, conversation: Conversation, *, tool_choice: ToolChoice = "auto", external: tuple[ToolOffer, ...] = ()
    ) -> ModelRequest:
        """What a run would ask the model first. Nothing is asked or recorded."""
        self._equip()
        shown = self._offers_of(self._terms.executor.tools).begin().shown(conversation.messages, tool_choice)
        return msgspec.structs.replace(
            self._terms.defaults,
            messages=conversation.messages,
            tools=ExternalTools(external).beside(shown),
            tool_choice=tool_choice,
        )

    @contextmanager
    def _traced(self, context: Context, tracer: Tracer) -> Iterator[Context]:
        with tracer.run(context.run or self._terms.executor.run, self._terms.model, context) as span:
            yield msgspec.structs.replace(context, trace=span.parent)

    async def _run(self, run: SingleRun, tool_choice: ToolChoice, grown_from: Conversation | None) -> Conversation:
        id = run.transcript.run
        try:
            self._equip()
            # A run that was let go of may have been taken up elsewhere: then only the record knows.
            known = self._known.get(id) if self._terms.executor.runs.holds(id) else None
            await run.begin(known, self._offers_of, grown_from)
            await run.loop(tool_choice)
        except HandrailError as error:
            error.conversation = run.conversation
            raise
        finally:
            if run.memory is not None:
                run.memory.recorded = run.transcript.recorded
                self._known[id] = run.memory
        return run.conversation

    def _equip(self) -> None:
        """The tools that a new run gets may have become too many to show at once."""
        if self._terms.executor.tools is not self._offers.of:
            self._offering.equip(self._terms.executor, self._programs)

    def _offers_of(self, tools: RegisteredTools, speaker: TeamMember | None = None) -> OfferableTools:
        """How the tools of a run are offered to one of its agents. They may be others than those of the run before."""
        if speaker is not None:
            found = self._team_offers.get(speaker.name)
            if found is None or found.of is not tools:
                valid = (*self._terms.valid, (*speaker.tools, *ALWAYS_VALID))
                found = OfferableTools(self._offering, tools, speaker.model, valid, self._programs)
                self._team_offers[speaker.name] = found
            return found
        if self._offers.of is not tools:
            self._offers = OfferableTools.shared(
                self._offering, tools, self._terms.model, self._terms.valid, self._programs
            )
        return self._offers
