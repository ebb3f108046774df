"""Requests that come again: they join the first, or get the answer that it got, and nothing runs a second time.

By a key that the client gave (`Idempotency-Key`) a request is known as long as its answer is kept here, and by the
record of its run after that. Without one, what an official client says of its retries is enough to know an attempt
that the same client gave up: the same bytes by the same principal, one attempt later, soon after its patience was over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from starlette.responses import Response

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.http.event_stream import FramePipe, FrameTape
from handrail.node.gateways.answer_plan import AnswerPlan
from handrail.node.gateways.answer_run import AnswerRun
from handrail.node.gateways.gateway import GatewayLimits
from handrail.node.gateways.request_body import RequestIdentity

Name = tuple[str, str, str | bytes, int]
"""The identity of a request: its owner, the API, the key or the content, and the number of the attempt; -1 for a
key."""
_NOT_OURS = ("idempotent-replayed", "content-length")


class SharedAnswer:
    """One answer on its way, for each connection that waits for it."""

    def __init__(self, plan: AnswerPlan, talk: AnswerRun, pipe: FramePipe | FrameTape, sent: RequestIdentity) -> None:
        self.plan = plan
        self.talk = talk
        self.pipe = pipe
        self.sent = sent
        """The last request that asked for it."""
        self.waiting = 0
        self.since = 0.0
        self.dropping: asyncio.TimerHandle | None = None

    def join(self, sent: RequestIdentity) -> FramePipe:
        """What this connection reads: from the beginning, as long as nobody read before or all of it is kept."""
        self.sent = sent
        self.waiting += 1
        self.since = asyncio.get_running_loop().time()
        self.stay()
        return self.pipe.reader() if isinstance(self.pipe, FrameTape) else self.pipe

    def stay(self) -> None:
        """Notes that the answer need not be dropped any more."""
        if self.dropping is not None:
            self.dropping.cancel()
            self.dropping = None

    @property
    def cut_off(self) -> bool:
        """Whether it was ended because nobody waited, after it had begun what must not be done twice."""
        return self.talk.changed and self.talk.task.cancelled()

    def given_up(self, share: float) -> bool:
        """Whether its client has waited for that share of its patience."""
        patience = self.sent.patience
        return patience is not None and asyncio.get_running_loop().time() - self.since >= patience * share


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer that was given, as bytes."""

    same: bytes
    status: int
    headers: dict[str, str]
    body: bytes
    deleted: bool = False

    def response(self) -> Response:
        """
        Raises:
            BusError: It was deleted since.
        """
        if self.deleted:
            raise deleted_response_error()
        return Response(self.body, self.status, {**self.headers, "idempotent-replayed": "true"})


class IdempotentAnswers:
    def __init__(self, bounds: GatewayLimits, now: Callable[[], float]) -> None:
        self._bounds = bounds
        self._live: dict[Name, list[SharedAnswer]] = {}
        self._kept = BoundedMemory[Name, StoredAnswer](
            bounds.kept,
            weight=lambda answer: len(answer.body) + 1_000,
            most_weight=bounds.kept_characters,
            seconds=bounds.kept_seconds,
            now=now,
        )
        self._alone: dict[SharedAnswer, None] = {}
        """Answers that nobody waits for, those that were left first at the beginning."""
        self._finding: WeakValueDictionary[Name, asyncio.Lock] = WeakValueDictionary()

    def finding(self, sent: RequestIdentity) -> AbstractAsyncContextManager[None]:
        """Held from looking for a request with a key until there is an answer for it, by one at a time for each key."""
        return nullcontext() if sent.key is None else self._finding.setdefault(_name(sent), asyncio.Lock())

    def find(self, sent: RequestIdentity) -> SharedAnswer | StoredAnswer | None:
        """The answer to a request that came before.

        Raises:
            BusError: The key belongs to another request (status 422).
        """
        if sent.key is not None:
            return self._of_key(_name(sent), sent.same)
        if not sent.attempt:
            return None
        before = _name(sent, back=1)
        found = next((each for each in self._live.get(before, ()) if _was_left(each)), None)
        if found is not None:
            self._take_out(before, found)
        return found

    def _of_key(self, name: Name, same: bytes) -> SharedAnswer | StoredAnswer | None:
        live = self._live.get(name)
        found = live[0] if live else self._kept.get(name)
        if found is not None and same != (found.sent.same if isinstance(found, SharedAnswer) else found.same):
            raise key_reused_error()
        return found

    def begin(self, answer: SharedAnswer, sent: RequestIdentity) -> FramePipe:
        """A connection waits for it from here on, until it is `left` or `told`."""
        pipe = answer.join(sent)
        self._alone.pop(answer, None)
        if sent.key is None and sent.attempt is not None:
            self._live.setdefault(_name(sent), []).append(answer)
        elif sent.key is not None:
            self._live[_name(sent)] = [answer]
        return pipe

    def told(self, answer: SharedAnswer) -> None:
        """A client has its answer, or the beginning of a stream: without a key it does not come again.

        Unless its patience was over before: then it is as if it had left, and asks again in a moment.
        """
        if not answer.plan.asked.stream and answer.talk.changed and self._knows(answer) and answer.given_up(0.9):
            answer.waiting = 0
            self._drop_in(self._bounds.linger, answer)
        else:
            self._forget_attempt(answer)

    async def left(self, answer: SharedAnswer) -> None:
        """A connection ended. The answer goes on for as long as somebody may come for it."""
        answer.waiting -= 1
        on_its_own = answer.sent.key is not None or answer.plan.asked.background
        if answer.waiting > 0 or (on_its_own and answer.talk.task.done()):
            return
        seconds = self._patience(answer)
        if not seconds:
            await answer.talk.leave()
        if seconds or (answer.talk.changed and self._knows(answer)):
            self._drop_in(seconds or self._bounds.linger, answer)
        else:
            self._forget_attempt(answer)
        if seconds:
            self._go_on_alone(answer)

    def _go_on_alone(self, answer: SharedAnswer) -> None:
        """As many answers go on without a client as with one. Beyond, one of the principal who has most of them ends,
        so that nobody ends those of others: the one that was left first, and rather one that has changed nothing. Of
        that a retry starts over, of another it takes up the record of its run."""
        self._alone[answer] = None
        if len(self._alone) > self._bounds.at_once:
            counts = Counter(each.sent.whose for each in self._alone)
            most = max(counts.values())
            candidates = [each for each in self._alone if counts[each.sent.whose] == most]
            dropped = next((each for each in candidates if not each.talk.changed), candidates[0])
            del self._alone[dropped]
            dropped.stay()
            self._drop(dropped)

    def ended(self, answer: SharedAnswer) -> None:
        """Its run is over."""
        self._alone.pop(answer, None)

    def _patience(self, answer: SharedAnswer) -> float:
        if answer.sent.key is not None or answer.plan.asked.background:
            return self._bounds.alone
        # Half of it: the clocks of a client and of a busy node do not start at the same moment.
        return self._bounds.linger if self._knows(answer) and answer.given_up(0.5) else 0.0

    def _knows(self, answer: SharedAnswer) -> bool:
        return answer in self._live.get(_name(answer.sent), ())

    def _drop_in(self, seconds: float, answer: SharedAnswer) -> None:
        answer.dropping = asyncio.get_running_loop().call_later(seconds, self._drop, answer)

    def _drop(self, answer: SharedAnswer) -> None:
        answer.talk.task.cancel()
        self._forget_attempt(answer)

    def _forget_attempt(self, answer: SharedAnswer) -> None:
        if answer.sent.key is None:
            self._take_out(_name(answer.sent), answer)

    def keep(self, answer: SharedAnswer, given: Response | None) -> None:
        """An answer with a key is over; None if it failed and may be asked for again."""
        answer.stay()
        name = _name(answer.sent)
        self._live.pop(name, None)
        if given is None:
            return
        headers = {name: value for name, value in given.headers.items() if name not in _NOT_OURS}
        self._kept[name] = StoredAnswer(answer.sent.same, given.status_code, headers, bytes(given.body))

    def delete(self, run: str) -> None:
        """The answer of a run is not given again. Its key stays known, so that nothing is done a second time."""
        for name, kept in self._kept.items():
            if kept.headers.get("x-handrail-run") == run:
                self._kept.amend(name, replace(kept, body=b"", deleted=True))

    def _take_out(self, name: Name, answer: SharedAnswer) -> None:
        answers = self._live.get(name, [])
        if answer in answers:
            answers.remove(answer)
        if not answers:
            self._live.pop(name, None)


def key_reused_error() -> BusError:
    why = "this Idempotency-Key belongs to another request, or came with a token for other rights; give each its own"
    return BusError("bad_request", why, status=422, param="Idempotency-Key")


def interrupted_request_error() -> BusError:
    why = (
        "this was asked before, and ended after it had begun to change something; look what was done before you ask "
        "anew, and send an Idempotency-Key so that a retry finds its answer"
    )
    return BusError("bad_request", why, status=409, outcome="in_doubt")


def deleted_response_error() -> BusError:
    why = "the response to this Idempotency-Key was deleted; give a new request its own key"
    return BusError("bad_request", why, status=409, param="Idempotency-Key")


def _name(sent: RequestIdentity, back: int = 0) -> Name:
    if sent.key is not None:
        return sent.whose, sent.wire, sent.key, -1
    return sent.whose, sent.wire, sent.same, (sent.attempt or 0) - back


def _was_left(answer: SharedAnswer) -> bool:
    """Whether the client of an answer is gone, by its own request if something in between holds the connection open."""
    return answer.waiting == 0 or (not answer.plan.asked.stream and answer.given_up(1.0))
