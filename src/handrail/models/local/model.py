"""The embedded model as a `Model`: offline, in a process of its own, with calls that fit their schemas.

It speaks OpenAI's chat wire with the engine, through the same codec as a service
would. What it can be trusted with is measured in `docs/local-model.md`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.closing import ClosedOnExit
from handrail.core.errors import InvalidSchema, MissingExtra, UsageError
from handrail.core.events import CallDelta, CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.core.ports import Embedder
from handrail.models.codec import Codec
from handrail.models.local.answers.answer_rule import (
    LONGEST,
    Answers,
    answer_about_tools,
    answer_rule_applies,
    bound_answer,
    follows_result,
    without_tool_lists,
)
from handrail.models.local.copied_arguments import copies_earlier_argument, without_earlier_turns
from handrail.models.local.engine_plan import EnginePlan, plan_request
from handrail.models.local.engine_process import EngineBounds, EngineSupervisor, engine_replies
from handrail.models.local.forced_grammar import ForcedCall
from handrail.models.local.tool_router import SHOWN, LocalToolRouter
from handrail.models.local.weights import EngineFiles, default_files, gguf_files
from handrail.models.local.wire import EngineLoading, EngineReady
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import profile_for
from handrail.tools.schema.validator import Validator


class LocalModel(ClosedOnExit):
    """Answers with a llama.cpp model in a child process, which starts at the first request.

    Close it, or use it in an `async with`; one that is forgotten ends its process too.
    """

    def __init__(
        self,
        files: EngineFiles,
        *,
        bounds: EngineBounds,
        router: LocalToolRouter,
        codec: Codec,
        name: str,
        answers: Answers = "free",
    ) -> None:
        self.name = name
        self._answers = answers
        self.window = bounds.context
        """Tokens that it reads and writes in one conversation."""
        self.writes_code = profile_for("local", name).writes_code
        """Whether code that it writes is worth running; `rlm/scripted_root.py` reads it."""
        self._router = router
        self._codec = codec
        self._supervisor = EngineSupervisor(files, bounds)
        self._finalizer = weakref.finalize(self, self._supervisor.close)

    @property
    def pid(self) -> int | None:
        """The id of the child process that runs now, if one does."""
        return self._supervisor.pid

    def holds_to_schema(self, *, tools: bool) -> bool:
        return not tools

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        events = (
            self._bound(request) if self._answers == "bound" and answer_rule_applies(request) else self._free(request)
        )
        async with aclosing(events):
            async for event in events:
                yield event

    async def _bound(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The calls of the reply as they come; its words at its end, held to what was said and returned."""
        finished = ReplyFinished(stop="end", model=self.name)
        if request.tool_choice in ("auto", "none") and (answer := answer_about_tools(request)) is not None:
            yield TextDelta(text=answer.text)
            yield finished
            return
        written, reports = "", follows_result(request)
        calls: list[CallDelta | CallRequested] = []
        shown = replace(request, messages=without_tool_lists(request.messages))
        async with aclosing(self._free(shown)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        written += text
                        if reports and not calls and len(written) > LONGEST:
                            break
                    case CallDelta() | CallRequested():
                        calls.append(event)
                    case ReplyFinished():
                        finished = event
                    case _:
                        yield event
        if calls:
            for event in await self._unborrowed(request, calls):
                yield event
        else:
            answer = bound_answer(request, written)
            if answer.dropped:
                yield Notice(text=f"the local model stated {answer.dropped!r}, which nobody said and no tool returned")
            yield TextDelta(text=answer.text)
            finished = finished if answer.text == written else replace(finished, stop="end")
        yield finished

    async def _unborrowed(
        self, request: ModelRequest, calls: list[CallDelta | CallRequested]
    ) -> list[CallDelta | CallRequested]:
        """The calls; or, where they copy an earlier call, those that the question alone leads to."""
        if not copies_earlier_argument(request, _requested(calls)):
            return calls
        alone: list[CallDelta | CallRequested] = []
        async with aclosing(self._free(without_earlier_turns(request))) as events:
            async for event in events:
                if isinstance(event, CallDelta | CallRequested):
                    alone.append(event)
        return alone if alone and not copies_earlier_argument(request, _requested(alone)) else calls

    async def _free(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply as the model writes it."""
        planned = plan_request(request, self._router.choose(request), self._codec, self.name)
        for notice in planned.notices:
            yield Notice(text=notice)
        kept: list[CallDelta | CallRequested] = []
        first = ""
        async with aclosing(self._reply(planned)) as events:
            async for event in events:
                first = first or _call_id(event)
                match event:
                    case CallDelta() | CallRequested() if not request.parallel and _call_id(event) != first:
                        continue  # the engine takes the wish for one call, and does not heed it
                    case CallDelta() | CallRequested() if planned.held:
                        kept.append(event)
                    case ReplyFinished() if kept:
                        async for late in self._checked(planned, kept, event):
                            yield late
                    case _:
                        yield event

    async def aclose(self) -> None:
        """End the child process."""
        await asyncio.to_thread(self._finalizer)

    def close(self) -> None:
        self._finalizer()

    async def _reply(self, planned: EnginePlan) -> AsyncGenerator[ModelEvent, None]:
        """One answer of the engine, as events."""
        decoder = self._codec.decoder(planned.request)
        forced = ForcedCall() if planned.forced else None
        async with aclosing(engine_replies(self._supervisor, planned.body)) as messages:
            async for message in messages:
                match message:
                    case EngineLoading(stage=stage):
                        yield Notice(text=f"local model: {stage}")
                    case EngineReady():
                        yield Notice(text="local model: ready")
                    case chunk:
                        for part in [chunk] if forced is None else forced.feed(chunk):
                            for event in decoder.feed({**part, "model": self.name}):
                                yield event
        for event in decoder.finish():
            yield event

    async def _checked(
        self, planned: EnginePlan, kept: list[CallDelta | CallRequested], finished: ReplyFinished
    ) -> AsyncGenerator[ModelEvent, None]:
        """The calls of a reply. One that does not fit is written again, under the grammar that holds it to more."""
        usage = finished.usage
        for event in kept:
            if not isinstance(event, CallRequested):
                continue
            offer = next((tool for tool in planned.request.tools if tool.name == event.call.name), None)
            call = event.call
            if offer is not None and not arguments_fit(offer, call):
                again, spent = await self._again(planned.request, offer)
                usage = usage.plus(spent)
                if again is None or not arguments_fit(offer, again):
                    yield Notice(
                        text=f"the local model could not write arguments for {offer.name!r} that fit its schema"
                    )
                else:
                    call = ToolCall(call.id, call.name, again.arguments)
            yield CallDelta(call_id=call.id, name=call.name, arguments=str(call.arguments))
            yield CallRequested(call=call, artefacts=event.artefacts)
        yield replace(finished, usage=usage)

    async def _again(self, request: ModelRequest, offer: ToolOffer) -> tuple[ToolCall | None, Usage]:
        wanted = replace(request, tool_choice=NamedTool(offer.name))
        call, usage = None, Usage()
        async with aclosing(self._reply(plan_request(wanted, (offer,), self._codec, self.name))) as events:
            async for event in events:
                match event:
                    case CallRequested():
                        call = event.call
                    case ReplyFinished():
                        usage = event.usage
        return call, usage


def _requested(events: list[CallDelta | CallRequested]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallRequested)]


def _call_id(event: ModelEvent) -> str:
    match event:
        case CallDelta(call_id=id) | CallRequested(call=ToolCall(id=id)):
            return id
    return ""


def arguments_fit(offer: ToolOffer, call: ToolCall) -> bool:
    """Whether the arguments can be read and are what the whole schema asks for."""
    try:
        arguments = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments)
        return not Validator(offer.input_schema, where=f"tool {offer.name!r}").problems(arguments)
    except (JSONTextError, InvalidSchema):
        return False


def create_local(
    *,
    weights: str | Path | None = None,
    embedder: Callable[[], Embedder] | None = None,
    shown: int = SHOWN,
    answers: Answers | None = None,
    **bounds: Any,
) -> LocalModel:
    """The embedded model, or any other GGUF by its path, with the template that is inside it.

    `embedder` makes what chooses the tools to show when there are more than `shown`; without
    one, all are. With `answers="bound"` the model says after a tool result only what the result says, with `"free"`
    whatever it writes; by default the embedded model is bound, and any other is free. `bounds` are the fields of
    `EngineBounds`. Nothing is loaded yet, and nothing is ever downloaded.

    Raises:
        UsageError: The weights are not there, and the message says how to get them; or `answers` is neither of the two.
        MissingExtra: The engine or the adapter is not installed.
    """
    if answers not in (None, *get_args(Answers)):
        raise UsageError(f"answers={answers!r} is not known; write answers='bound' or answers='free'")
    if find_spec("xllamacpp") is None:
        raise MissingExtra("the local model", "local")
    files = default_files() if weights is None else gguf_files(weights)
    name = "local" if weights is None else files.weights.stem
    return LocalModel(
        files,
        bounds=EngineBounds(**bounds),
        router=LocalToolRouter(embedder, shown),
        codec=OpenAIChatCodec(profile=profile_for("local", "local")),
        name=name,
        answers=answers or ("bound" if weights is None else "free"),
    )
