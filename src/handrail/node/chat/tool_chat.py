"""One chat with tools over the bus: the frames that its reader gets, and how it comes to its end.

The runner loops, with a model that is `llm.chat@2.0`; each reply is a call of it. Where
the chat is interactive it is one call, in whose stream the tools' results are given
back: then the node that has the model loops. Both end in the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import BusError, LimitReached, ModelError
from handrail.core.events import CallProgress, CallRequested, Event, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Conversation, Media
from handrail.execute.executor import Executor
from handrail.node.bus.interfaces import Bus, CallStream
from handrail.node.bus.request import CallTerms
from handrail.node.bus.result_labels import LABELS
from handrail.node.bus.schemas import bad_request_error
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.chat.frames import ChatFrameReader
from handrail.node.chat.messages import pictures_in, read_messages
from handrail.node.chat.model import BusModel
from handrail.node.chat.request import choice_of, defaults_of, native_tool
from handrail.node.chat.schema import CHAT, MAX_TOOLS, V2, request_schema
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.run.runner import Runner
from handrail.tools.definition import ToolDefinition
from handrail.tools.schema.validator import Validator

_CALLS_PER_TURN = Limits().calls_per_turn

StreamTo = Callable[[dict[str, Any]], Awaitable[None]]
"""Given each frame as `{"event": …, "data": …}`."""


class ChatFrameSender:
    """Passes frames on to whoever reads them, one by one. A chat of many replies is one stream, with one end."""

    def __init__(self, stream_to: StreamTo | None) -> None:
        self._stream_to = stream_to
        self._turn = asyncio.Lock()
        self.began = asyncio.get_running_loop().time()

    async def frame(self, frame: StreamFrame) -> None:
        """What the model says. The end of one reply is not the end of the chat."""
        if not frame.is_last:
            await self.send(frame.event, frame.data)

    async def event(self, event: Event) -> None:
        if isinstance(event, CallProgress):
            told = {"current": event.current, "total": event.total, "stage": event.stage}
            await self.send("progress", {**told, "tool_call_id": event.call_id})

    async def send(self, event: str, data: dict[str, Any]) -> None:
        if self._stream_to is not None:
            async with self._turn:
                await self._stream_to({"event": event, "data": data})

    async def ask(self, event: str, data: dict[str, Any]) -> None:
        """A question. It does not keep the others waiting, since whoever reads it may answer there and then."""
        if self._stream_to is not None:
            await self._stream_to({"event": event, "data": data})

    @property
    def has_listener(self) -> bool:
        return self._stream_to is not None

    @property
    def ms(self) -> int:
        return round((asyncio.get_running_loop().time() - self.began) * 1000)


class BusChat:
    """What is said in one, and by which rules."""

    def __init__(
        self,
        bus: Bus,
        executor: Executor,
        body: Mapping[str, Any],
        reader: ChatFrameSender,
        *,
        terms: CallTerms,
        context: Context,
        max_iterations: int,
        note: Callable[[ToolCall], None],
    ) -> None:
        """`note` is told of every call before it is settled.

        Raises:
            BusError: The body does not fit the schema of `llm.chat@2.0` (`bad_request_error`).
        """
        check_body(body)
        self._bus = bus
        self._executor = executor
        self._params: dict[str, Any] = body.get("params") or {}
        self._input: dict[str, Any] = body["input"]
        self._reader = reader
        self._terms = terms
        self._context = context
        self._iterations = max_iterations
        self._note = note
        self._answered = 0
        names = {tool.name for tool in executor.tools}
        self._offered = _offered(self._input, names)
        shown = names if self._offered is None else set(self._offered)
        self._choice = choice_of(self._input.get("tool_choice", "auto"), shown)

    async def run(self) -> tuple[str, dict[str, Any]]:
        """The answer, and the data of `done`. The runner asks again until no tool is called.

        Raises:
            ModelError: The model gave no usable reply; if it was an error of the bus, that is its cause.
        """
        runner = Runner(
            BusModel(self._bus, self._params, terms=self._terms, watch=self._reader.frame),
            self._executor,
            Limits(iterations=self._iterations),
            defaults=defaults_of(self._input),
            # With more than fit in one call, the one by which others are found takes a place too.
            offering=Offering(
                most=MAX_TOOLS if len(self._executor.tools) <= MAX_TOOLS else MAX_TOOLS - 1, native=False
            ),
            valid=() if self._offered is None else (self._offered,),
        )
        pictures = {cid: Media(media_type="image/*", url=cid) for cid in pictures_in(self._input["messages"])}
        began = Conversation(read_messages(self._input["messages"], pictures))
        ended = await runner.run(began, self._context, self._event, tool_choice=self._choice)
        replies = [message for message in ended.messages[len(began) :] if isinstance(message, AssistantMessage)]
        usage = Conversation(tuple(replies)).usage
        last = replies[-1] if replies else AssistantMessage()
        end = {"model": last.model, "tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
        return ended.text, {**end, "stop_reason": last.stop, "ms": self._reader.ms}

    async def in_one_stream(self) -> tuple[str, dict[str, Any]]:
        """The same, where the node of the model asks for the results of calls in mid-stream.

        Raises:
            ModelError: As above.
            BusError: The stream broke.
        """
        asked = {**self._input, "tools": self._natives(), "max_iterations": self._iterations}
        body = {"params": self._params, "input": asked}
        async with self._bus.stream(CHAT, V2, body, interactive=True, terms=self._terms) as frames:
            answers = StreamedToolAnswers(frames, self._answer)
            try:
                return await self._heard(frames, answers)
            except ModelError:
                if answers.failure is not None:
                    raise answers.failure from None
                raise
            finally:
                await answers.end()

    async def _heard(self, frames: CallStream, answers: StreamedToolAnswers) -> tuple[str, dict[str, Any]]:
        hearing, text = ChatFrameReader(), list[str]()
        async for frame in frames:
            await self._reader.frame(frame)
            for event in hearing.events(frame):
                match event:
                    case TextDelta(text=piece):
                        text.append(piece)
                    case CallRequested(call=call):
                        text.clear()
                        answers.begin(call)
                    case ReplyFinished():
                        end = {key: value for key, value in frame.data.items() if key not in ("message", LABELS)}
                        return _last(frame.data, text), {**end, "ms": self._reader.ms}
        raise BusError("partition", "the stream broke off", outcome="in_doubt")

    async def _event(self, event: Event) -> None:
        if isinstance(event, CallRequested):
            self._note(event.call)
        await self._reader.event(event)

    async def _answer(self, call: ToolCall) -> ToolResult:
        """A call of the node that loops: within the tools and the limits of this side, whatever that node's are."""
        self._note(call)
        self._answered += 1
        most = self._iterations * _CALLS_PER_TURN
        if self._answered > most:
            return await self._executor.refuse(call, LimitReached(f"not run: the limit is {most} calls"), self._context)
        within = self._context.within if self._offered is None else (*self._context.within, self._offered)
        return await self._executor.invoke(call, replace(self._context, within=within), self._reader.event)

    def _natives(self) -> list[dict[str, Any]]:
        chosen = (each for each in self._executor.tools if self._offered is None or each.name in self._offered)
        return native_tool_dicts(tool.definition for tool in chosen)


class StreamedToolAnswers:
    """The calls of an interactive stream while they run, each answered in the stream when it has."""

    def __init__(self, frames: CallStream, settle: Callable[[ToolCall], Awaitable[ToolResult]]) -> None:
        self._frames = frames
        self._settle = settle
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: Exception | None = None
        """Why a call could not be settled at all; then the stream is cancelled."""

    def begin(self, call: ToolCall) -> None:
        task = asyncio.create_task(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Stop what is still under way: nobody hears its answer."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _answer(self, call: ToolCall) -> None:
        try:
            result = await self._settle(call)
            body = result.content
            if result.error is not None:
                body = {"error": result.error.code, "message": result.error.message}
            await self._frames.tool_result(call.id, body, is_error=result.is_error)
        except Exception as error:
            self.failure = self.failure or error
            await self._frames.cancel()


def _last(done: Mapping[str, Any], text: list[str]) -> str:
    """The last reply, as the node tells it; one that does not has said all of it in frames."""
    match done.get("message"):
        case {"content": str(content)}:
            return content
    return "".join(text)


def native_tool_dicts(definitions: Iterable[ToolDefinition]) -> list[dict[str, Any]]:
    """Tools as `input.tools` of `llm.chat@2.0` has them."""
    return [native_tool(each.name, each.description, each.input_schema) for each in definitions]


def check_body(body: Any) -> None:
    if problems := _validator().problems(body):
        raise bad_request_error(problems)


@lru_cache(maxsize=1)
def _validator() -> Validator:
    return Validator(request_schema(V2), "the body of llm.chat@2.0", root="(body)")


def _offered(input: Mapping[str, Any], names: set[str]) -> tuple[str, ...] | None:
    """The tools that the body names; None is all."""
    if "tools" not in input:
        return None
    wanted = tuple(str(tool.get("name")) for tool in input["tools"])
    if unknown := [name for name in wanted if name not in names]:
        raise BusError("bad_request", f"input.tools has {unknown[0][:80]!r}, which is not among the declared tools")
    return wanted
