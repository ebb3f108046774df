"""Queries of code to models, by name: one, many at once, or one turn whose calls the asker answers.

Only what a caller did wrong is raised, as `ValueError` and before anything is asked; the rest is in the completion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.ids import NewId, nested_id, new_id
from handrail.core.model_request import ToolOffer
from handrail.core.ports import Clock, Journal, Model, SystemClock, Tracer
from handrail.execute.policy import Policy
from handrail.rlm.query import openai_forms
from handrail.rlm.query.batch import check_prompts, each_format, each_tools, run_all_bounded
from handrail.rlm.query.handler_tools import ReplHandler, ToolHandler, tools_with_handler
from handrail.rlm.query.single_query import NO_TOOLS, ModelQuery, QueryAsker, UnknownModel, completion_of_error
from handrail.rlm.query.spending import Spending
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion
from handrail.tools.registry import RegisteredTools

logger = logging.getLogger(__name__)

OnRequest = Callable[[LMRequest, LMResponse], object]

QUERY_POLICY = Policy(timeout=600.0, max_output=1_000_000)
"""How calls of a query's tools are treated. Whatever the policy, a handler that is given is meant to be called, so
nobody is asked for each call; and it is called for one call after the other."""


class Queries(ClosedOnExit):
    """Models by name, with the settings for asking them. Belongs to one event loop."""

    def __init__(
        self,
        models: Mapping[str, Model],
        default: Model,
        *,
        sub: Model | None = None,
        journal: Journal | None = None,
        policy: Policy = QUERY_POLICY,
        concurrency: int = 16,
        iterations: int = 10,
        spend: Spending | None = None,
        on_request: OnRequest | None = None,
        tracer: Tracer | None = None,
        clock: Clock = SystemClock(),
        new_id: NewId = new_id,
    ) -> None:
        """
        Args:
            models: Those that a query may name, besides `default` and `sub` by their own names.
            sub: Asked from depth 1 on by whoever names no model.
            concurrency: Queries of one batch that are answered at once.
            iterations: Replies of a model with tools before it has to answer, unless a query says otherwise.
            on_request: Told of each query and its answer; of a batch, of each prompt on its own. A model that
                failed is in the `error` of the completion. What it raises is logged, the first time.
            tracer: Makes spans of each query, its turns and its calls, below that of the `context` that it is asked in.
        """
        if concurrency < 1 or iterations < 1:
            raise UsageError("concurrency and iterations must be at least 1")
        self.models: dict[str, Model] = dict(models)
        self.default = default
        self.sub = sub
        self.spend: Spending = spend or Spending()
        alone = replace(policy, concurrency=1, confirm_side_effects=False)
        self._asker = QueryAsker(self.spend, journal, alone, iterations, tracer, clock, new_id)
        self._concurrency = concurrency
        self._iterations = iterations
        self._on_request = on_request
        self._clock = clock
        self._has_told = False

    # ── asking ───────────────────────────────────────────────────────────────────────

    async def query(
        self,
        prompt: Any,
        model: str | None = None,
        response_format: Any = None,
        tools: Any = None,
        tool_handler: ToolHandler | ReplHandler | None = None,
        *,
        tool_choice: Any = None,
        max_iterations: int | None = None,
        depth: int = 1,
        run: str = "",
        context: Context = Context(),
    ) -> RLMChatCompletion:
        """Ask once; with tools, until the model answers without calling one.

        A `run` that is on record already is taken up where it was cut off. The `context` says who asks.

        Raises:
            ValueError: The query cannot be asked as it is.
            JournalError: The record cannot be kept.
        """
        openai_forms.check_model(model)
        if tools is not None and tool_handler is None:
            raise ValueError(openai_forms.NEEDS_HANDLER)
        made = NO_TOOLS if tools is None or tool_handler is None else tools_with_handler(tools, tool_handler)
        request = LMRequest(prompt=prompt, model=model, depth=depth)
        return await self._answer_and_tell(
            self._read(request, response_format, tools, made, tool_choice, max_iterations, run, context)
        )

    async def batched(
        self,
        prompts: Any,
        model: str | None = None,
        response_formats: Any = None,
        tools: Any = None,
        tool_handler: Any = None,
        *,
        tool_choice: Any = None,
        max_iterations: int | None = None,
        depth: int = 1,
        run: str = "",
        context: Context = Context(),
    ) -> list[RLMChatCompletion]:
        """Ask for each prompt on its own, some at once; the answers are in the order of the prompts.

        `tools` are definitions for all prompts, or one list of them (or None) for each; `tool_handler` is one for
        all, or a list with one for each. See `each_tools`.

        Raises:
            ValueError: One of them cannot be asked as it is; then none is.
            JournalError: The record cannot be kept.
        """
        check_prompts(prompts)
        openai_forms.check_model(model)
        sets = each_tools(tools, tool_handler, len(prompts))
        made: dict[tuple[int, int], RegisteredTools] = {(id(None), id(None)): NO_TOOLS}
        for some, by in sets:
            if (key := (id(some), id(by))) not in made:
                made[key] = NO_TOOLS if some is None else tools_with_handler(some, by)
        formats = each_format(response_formats, len(prompts))

        def read(at: int) -> ModelQuery:
            request = LMRequest(prompt=prompts[at], model=model, depth=depth)
            some, by = sets[at]
            ready = made[id(some), id(by)]
            own = nested_id(run, str(at)) if run else ""
            return self._read(request, formats[at], some, ready, tool_choice, max_iterations, own, context)

        plain = tools is None and response_formats is None and tool_choice is None
        for at, prompt in enumerate(prompts):  # nothing is asked unless everything can be
            if not (plain and at and isinstance(prompt, str)):
                read(at)
        return await run_all_bounded(len(prompts), lambda at: self._answer_and_tell(read(at)), self._concurrency)

    async def turn(
        self,
        prompt: Any,
        model: str | None = None,
        response_format: Any = None,
        tools: Any = None,
        *,
        tool_choice: Any = None,
        depth: int = 1,
        run: str = "",
        context: Context = Context(),
    ) -> RLMChatCompletion:
        """Ask once, and leave the calls that the model makes to the asker: they are in `tool_calls`.

        Raises:
            ValueError: The query cannot be asked as it is.
            JournalError: The record cannot be kept.
        """
        openai_forms.check_model(model)
        definitions = openai_forms.definitions_of(tools or ())
        offers = tuple(ToolOffer(each.name, each.description, each.input_schema) for each in definitions)
        request = LMRequest(prompt=prompt, model=model, depth=depth)
        query = self._read(request, response_format, tools, NO_TOOLS, tool_choice, None, run, context, offers)
        return await self._answer_and_tell(query)

    def _read(
        self,
        request: LMRequest,
        response_format: Any,
        tools: Any,
        made: RegisteredTools,
        tool_choice: Any,
        max_iterations: int | None,
        run: str,
        context: Context,
        external: tuple[ToolOffer, ...] = (),
    ) -> ModelQuery:
        iterations = self._iterations if max_iterations is None else max_iterations
        if not isinstance(iterations, int) or iterations < 1:
            raise ValueError(f"Invalid max_iterations: at least 1, not {iterations!r}")
        conversation = openai_forms.conversation_of(request.prompt)
        request.response_format, request.tools, request.tool_choice = response_format, tools, tool_choice
        names = [*(tool.name for tool in made), *(offer.name for offer in external)]
        return ModelQuery(
            request=request,
            conversation=conversation,
            schema=openai_forms.schema_of(response_format),
            tools=made,
            external=external,
            choice=openai_forms.choice_of(tool_choice, names),
            iterations=iterations,
            run=run,
            context=context,
        )

    def route(self, model: str | None, depth: int = 1) -> Model:
        """Who is asked: the model of that name; else, from depth 1 on, `sub`; else `default`.

        Where no models were given by name there is nothing to choose from, and any name will do: code
        written for one service runs with another.

        Raises:
            UnknownModel: There are models by name, and none has this one.
        """
        if model is not None:
            own = (each for each in (self.sub, self.default) if each is not None)
            known = {**{each.name: each for each in own}, **self.models}
            if model in known:
                return known[model]
            if self.models:
                raise UnknownModel(f"there is no model {model!r}; there are {', '.join(sorted(known))}")
        return self.sub if self.sub is not None and depth >= 1 else self.default

    # ── answering ────────────────────────────────────────────────────────────────────

    async def _answer_and_tell(self, query: ModelQuery) -> RLMChatCompletion:
        started = self._clock.monotonic()
        try:
            model = self.route(query.request.model, query.request.depth)
        except UnknownModel as error:
            unasked = RLMChatCompletion(
                root_model=query.request.model or "", prompt=query.request.prompt, response="", run=query.run
            )
            completion = completion_of_error(unasked, error)
        else:
            completion = await self._asker.answer(query, model)
        completion.execution_time = self._clock.monotonic() - started
        if self._on_request is not None:
            self._tell(self._on_request, query.request, LMResponse(error=completion.error, chat_completion=completion))
        return completion

    def _tell(self, on_request: OnRequest, request: LMRequest, response: LMResponse) -> None:
        try:
            on_request(request, response)
        except Exception:
            if not self._has_told:
                self._has_told = True
                logger.warning(
                    "on_request raised an exception; the run goes on, what it raises later is not logged", exc_info=True
                )

    async def aclose(self) -> None:
        await self._asker.aclose()
