"""One answer on its way: a run of the model and the node's tools, told to a client in the form of its API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.errors import BusError
from handrail.core.events import (
    CallIntended,
    CallProgress,
    CallRequested,
    CallSettled,
    CitationAdded,
    ConfirmationRequested,
    Event,
    MediaAdded,
    Notice,
    ReasoningDelta,
    ReplyFinished,
    ReplyGiven,
    TextDelta,
)
from handrail.core.messages import (
    AssistantMessage,
    Citation,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    StopReason,
)
from handrail.core.tasks import run_to_completion
from handrail.http.event_stream import FramePipe, FrameTape
from handrail.node.gateways.answer_memory import AnswerMemory
from handrail.node.gateways.answer_plan import AnswerPlan
from handrail.node.gateways.failures import failure_of
from handrail.node.gateways.request import GatewayOutcome, UnconfirmedCall
from handrail.node.gateways.wire import stream_comment
from handrail.run.history import calls_of_reply, unanswered_calls


class AnswerRun:
    """An answer that starts when this is made. It ends by itself, or by `end`."""

    def __init__(self, plan: AnswerPlan, pipe: FramePipe | FrameTape, memory: AnswerMemory) -> None:
        self._plan = plan
        self._pipe = pipe
        self._memory = memory
        self._stream = plan.asked.stream
        self._collects = plan.writer.collects
        plan.writer.resume(plan.taken.conversation.messages[plan.taken.asked : plan.taken.told])
        self._opening = plan.writer.begin() if self._stream else b""
        """What comes before anything is said."""
        self._said: list[str] = []
        self._begun = False
        """Whether the client was sent anything."""
        self._new_reply = False
        """Whether the model has ended one reply, and may begin another."""
        form = plan.asked.settings.response_schema
        self._held: list[str] | None = None if form is None or not plan.may_call else []
        """The words of a reply, where the answer is to have a form: beside a call they are no part of it."""
        self._called = False
        """Whether this reply calls something."""
        self._requests = dict(plan.taken.requests)
        self._notices = [f"{name} has no effect here" for name in plan.asked.ignored]
        self._ending: BusError | None = None
        """Why it is ended from here, if it is."""
        self.conversation = plan.taken.conversation
        """The conversation of the run; complete once the run is over."""
        self.changed = False
        """Whether something was begun that must not be done twice."""
        self.failed = False
        """Whether it ended without the answer, also where the stream had begun."""
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def run(self) -> str:
        return self._plan.context.run

    def end(self) -> None:
        """The node ends: so does this, and the client is told."""
        self._end(BusError("partition", "the node is being shut down; ask again"))

    async def stop(self) -> None:
        """Somebody cancels the answer: wait until everything has stopped. A client that waits for it is told."""
        self._end(BusError("cancelled", "this response was cancelled"))
        await asyncio.wait({self.task})

    def _end(self, why: BusError) -> None:
        self._ending = why
        self.task.cancel()

    async def leave(self) -> None:
        """The client is gone: stop, and wait until everything has stopped."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _run(self) -> GatewayOutcome:
        """Raises whatever ended the run, unless the stream had begun: then that is its last frame."""
        try:
            ended = await self._answer()
            if self._stream:
                await self._send(self._plan.writer.finish(ended))
            return ended
        except asyncio.CancelledError:
            if self._ending is None:
                raise
            return await self._failed(self._ending)
        except Exception as error:
            return await self._failed(error)
        finally:
            self._pipe.close()

    async def _failed(self, error: Exception) -> GatewayOutcome:
        self.failed = True
        if not self._begun:
            raise error
        await self._send(self._plan.writer.broken(failure_of(error), self.run))
        return GatewayOutcome(run=self.run)

    async def _answer(self) -> GatewayOutcome:
        plan, reason = self._plan, "cancelled"
        try:
            await self._say_again(plan.taken.conversation.messages[plan.taken.told :])
            conversation = await plan.runner.run(
                plan.taken.conversation,
                plan.context,
                self._emit,
                tool_choice=plan.asked.choice,
                external=plan.asked.tools,
            )
            self.conversation = conversation
            await self._let_go()  # of a reply that was cut off
            ended = self._ended(conversation)
            reason = "handed over" if ended.calls else "waits" if ended.waiting else "done"
            return ended
        except Exception:
            reason = "failed"
            raise
        finally:
            await run_to_completion(plan.executor.finish(plan.context.run, reason))

    def _ended(self, conversation: Conversation) -> GatewayOutcome:
        taken = self._plan.taken
        new = conversation.messages[taken.told :]
        elsewhere = {offer.name for offer in self._plan.asked.tools}
        open_calls = [message.call for message in unanswered_calls(conversation)]
        handed = tuple(call for call in open_calls if call.name in elsewhere)
        if handed:
            self._memory.keep(self._plan.context.principal.id, conversation.messages[taken.asked :], handed)
        text = "".join(self._said)
        return GatewayOutcome(
            run=self.run,
            text=text,
            citations=_citations(new, text),
            calls=handed,
            stop=_stop(new, handed, paused=bool(open_calls)),
            usage=Conversation(new).usage,
            waiting=tuple(self._waiting(new, open_calls)),
            notices=tuple(dict.fromkeys(self._notices)),
            at=self._plan.executor.runs.now() // 1000,
        )

    def _waiting(self, new: tuple[Message, ...], open_calls: list[ToolCall]) -> list[UnconfirmedCall]:
        """Calls that a person was asked about and that have no other answer yet."""
        told = [
            ToolCall(each.result.tool_call_id, each.result.name)
            for each in new
            if isinstance(each, ResultMessage) and each.result.outcome == "needs_confirmation"
        ]
        found = {call.id: call.name for call in (*told, *open_calls) if call.id in self._requests}
        return [UnconfirmedCall(self._requests[id], name, id) for id, name in found.items()]

    # ── what happens meanwhile ───────────────────────────────────────────────────────

    async def _emit(self, event: Event) -> None:
        match event:
            case TextDelta(text=piece):
                if self._held is not None:
                    self._held.append(piece)
                elif piece:
                    await self._say(piece)
            case ReasoningDelta(text=piece) if self._collects and piece:
                await self._tell(self._plan.writer.reasoning(piece))
            case CallRequested():
                self._called = True
            case ReplyFinished():
                await self._let_go()
                self._new_reply = True
            case ReplyGiven(messages=given, stop=stop) if self._collects:
                calls = [message.call for message in given or () if isinstance(message, InvocationMessage)]
                await self._tell(self._plan.writer.end_reply(calls, stop))
            case CitationAdded(citation=citation) if self._collects:
                await self._tell(self._plan.writer.citation(citation))
            case MediaAdded(media=media) if self._collects:
                await self._tell(self._plan.writer.media(media))
            case Notice(text=words):
                self._notices.append(words)
            case ConfirmationRequested(call_id=id, request=request):
                self._requests[id] = request
            case CallIntended() | CallSettled() | CallProgress():
                await self._at_work(event)

    async def _let_go(self) -> None:
        """Say what was held, if it is the answer."""
        words, called = "".join(self._held or ()), self._called
        self._called = False
        if words and self._held is not None:
            self._held.clear()
            if not called:
                await self._say(words)

    async def _say_again(self, answer: tuple[Message, ...]) -> None:
        """What a run that is taken up has on record of its answer."""
        writer = self._plan.writer
        for at, (message, after) in enumerate(pairwise((*answer, None))):
            beside_a_call = self._held is not None and isinstance(after, InvocationMessage)
            match message:
                case AssistantMessage(text=text):
                    if text and not beside_a_call:
                        await self._say(text)
                        self._new_reply = True
                    await self._tell(writer.end_reply(calls_of_reply(answer, at), message.stop))
                case ResultMessage(result=result):
                    await self._tell(writer.end_call(result))

    async def _say(self, piece: str) -> None:
        if self._new_reply:
            self._new_reply = False
            if self._said:
                piece = self._plan.writer.between + piece
        self._said.append(piece)
        if self._stream:
            await self._send(self._plan.writer.text(piece))
        elif self._collects:
            self._plan.writer.text(piece)

    async def _tell(self, frame: bytes) -> None:
        """Send what the writer made of something, if it made anything and somebody reads the stream."""
        if frame and self._stream:
            await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        if not self._begun:
            self._begun = True
            frame = self._opening + frame
        await self._pipe.put(frame)

    async def begin(self) -> None:
        """Send what comes before anything is said: the client has waited long enough to hear that somebody is there."""
        if not self._begun:
            await self._send(self._plan.wire.alive)

    async def _at_work(self, event: CallIntended | CallSettled | CallProgress) -> None:
        if isinstance(event, CallIntended) and event.side_effects and not event.idempotent:
            self.changed = True
        if self._collects and isinstance(event, CallSettled) and event.result is not None:
            await self._tell(self._plan.writer.end_call(event.result))
        if self._stream and self._plan.asked.ours.progress:
            await self._send(stream_comment(_progress(event)))


def _stop(new: tuple[Message, ...], handed: tuple[ToolCall, ...], *, paused: bool) -> StopReason:
    if handed:
        return "tool_calls"
    last = next((message for message in reversed(new) if isinstance(message, AssistantMessage)), None)
    if paused or last is None:
        return "end"
    # The last word was a call, and what came of it went to nobody: a limit ended the run.
    return "max_tokens" if last.stop == "tool_calls" and not isinstance(new[-1], AssistantMessage) else _said(last)


def _said(message: AssistantMessage) -> StopReason:
    return "end" if message.stop == "tool_calls" else message.stop


def _progress(event: CallIntended | CallSettled | CallProgress) -> dict[str, Any]:
    about: dict[str, Any] = {"call_id": event.call_id, "tool": event.tool}
    match event:
        case CallIntended():
            return {"event": "tool_begun", **about}
        case CallSettled(outcome=outcome, duration_us=duration):
            return {"event": "tool_ended", **about, "outcome": outcome, "ms": duration // 1000}
        case CallProgress(current=current, total=total, stage=stage):
            return {"event": "tool_progress", **about, "current": current, "total": total, "stage": stage}


def _citations(messages: Iterable[Message], text: str) -> tuple[Citation, ...]:
    """The sources of the replies, with their places in the answer's text. A reply that is no part of it has none."""
    found: list[Citation] = []
    at = 0
    for message in messages:
        if not isinstance(message, AssistantMessage) or not message.text or (start := text.find(message.text, at)) < 0:
            continue
        at = start + len(message.text)
        found += (_moved(citation, start) for citation in message.citations)
    return tuple(found)


def _moved(citation: Citation, by: int) -> Citation:
    if citation.start is None:
        return citation
    return replace(citation, start=citation.start + by, end=None if citation.end is None else citation.end + by)
