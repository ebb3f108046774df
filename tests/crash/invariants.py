"""What must hold of a simulated run, whoever went first and wherever its processes died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from handrail import Conversation
from handrail.core.calls import ToolResult
from handrail.core.events import CallAmended, CallIntended, CallSettled, Recorded, RunResumed
from handrail.core.messages import AssistantMessage, InvocationMessage, ResultMessage
from handrail.run.history import conversation_of, unanswered_calls
from tests.crash.mortal_world import ONCE, RUN, CountedWorld, MortalProcess, named
from tests.crash.scenario import Scenario

DID_NOTHING = frozenset({"unknown_tool", "invalid_arguments", "forbidden", "denied", "limit", "needs_confirmation"})
IN_DOUBT = frozenset({"pay", "drag", "stubborn", "outer"})
"""Effects that may not run again and cannot be looked up."""


def judge(
    plan: Scenario,
    world: CountedWorld,
    lives: Sequence[MortalProcess],
    kept: Sequence[list[Recorded]],
    conversation: Conversation,
) -> list[str]:
    """Everything that is wrong."""
    everything, kept = kept[-1], [[event for event in each if event.run == RUN] for each in kept]
    events = kept[-1]
    # Then the model, asked again, may well make a call again that was taken back.
    rolls_back = plan.on_error == "fail_fast"
    return [
        *(f"{which} took place twice" for which in world.repeated(by_call=rolls_back)),
        *_keys(world),
        *_one_result_each(conversation),
        *_settled_once(events),
        *_nothing_lost(plan, lives, kept, conversation),
        *_honest(world, events, conversation),
        *_doubt(events, conversation),
        *_within_limits(plan, conversation),
        *_speakers(conversation),
        *_agents(world, lives, everything),
    ]


def _speakers(conversation: Conversation) -> Iterator[str]:
    """Each reply is of the agent that the conversation was last handed over to."""
    speaker = "first"
    for message in conversation.messages:
        match message:
            case AssistantMessage(model=model) if model != speaker:
                yield f"{model} spoke in the place of {speaker}"
            case ResultMessage(result=result) if result.name.startswith("hand_off_to_") and not result.is_error:
                speaker = result.name.removeprefix("hand_off_to_")


def _agents(world: CountedWorld, lives: Sequence[MortalProcess], everything: list[Recorded]) -> Iterator[str]:
    """What holds of a run holds of the runs that its calls began."""
    for run in dict.fromkeys(event.run for event in everything if event.run != RUN):
        events = [event for event in everything if event.run == run]
        conversation = conversation_of(events)
        if unanswered_calls(conversation):
            continue  # its caller told the model that it waits, and nobody asked for it again
        yield from (f"in {run}: {each}" for each in _one_result_each(conversation))
        yield from (f"in {run}: {each}" for each in _settled_once(events))
        yield from (f"in {run}: {each}" for each in _honest(world, events, conversation))
        yield from (f"in {run}: {each}" for each in _doubt(events, conversation))


def _keys(world: CountedWorld) -> Iterator[str]:
    keys: dict[str, set[str]] = {}
    for each in world.effects:
        if each.kind == "put":
            keys.setdefault(each.call_id, set()).add(each.key)
    yield from (f"{id} ran again with another key" for id, each in keys.items() if len(each) > 1)


def _one_result_each(conversation: Conversation) -> Iterator[str]:
    asked = [message.id for message in conversation.messages if isinstance(message, InvocationMessage)]
    told = Counter(message.invocation_id for message in conversation.messages if isinstance(message, ResultMessage))
    if len(set(asked)) != len(asked):
        yield f"an id names two calls: {asked}"
    for id in asked:
        if told[id] != 1:
            yield f"call {id} has {told[id]} results"
    yield from (f"the result of {id} answers no call" for id in told.keys() - set(asked))


def _settled_once(events: list[Recorded]) -> Iterator[str]:
    settled = Counter(event.call_id for event in events if isinstance(event, CallSettled))
    yield from (f"call {id} was settled {count} times" for id, count in settled.items() if count > 1)


def _nothing_lost(
    plan: Scenario, lives: Sequence[MortalProcess], kept: Sequence[list[Recorded]], conversation: Conversation
) -> Iterator[str]:
    """What a caller was told of a call stays the answer; after a power cut, at least of an effect that ran."""
    final = {event.call_id: event.result for event in kept[-1] if isinstance(event, CallSettled)}
    told = {
        message.invocation_id: message.result
        for message in conversation.messages
        if isinstance(message, ResultMessage) and message.result.outcome != "needs_confirmation"
    }
    for life in lives:
        for event in life.told:
            if not isinstance(event, CallSettled) or final.get(event.call_id) == event.result:
                continue
            if not plan.power or (event.ran and event.tool in ONCE | {"put"}):
                yield f"call {event.call_id} was answered {event.result}, and then {final.get(event.call_id)}"
    for id, result in told.items():
        if id in final and result != final[id]:
            yield f"the conversation has another answer for {id} than the record: {result}, {final[id]}"
    if plan.on_error != "fail_fast":
        yield from _conversation_kept(kept)


def _conversation_kept(kept: Sequence[list[Recorded]]) -> Iterator[str]:
    """A later life goes on from what the record had: no message of it is changed or taken back."""
    for before, after in pairwise(kept):
        old, new = plain(conversation_of(before)), plain(conversation_of(after))
        if new[: len(old)] != old:
            yield f"the conversation changed when it was taken up:\n    {old}\n    {new}"


def _honest(world: CountedWorld, events: list[Recorded], conversation: Conversation) -> Iterator[str]:
    """An answer says what the world says."""
    ran = {event.call_id for event in events if isinstance(event, CallIntended)}
    run = events[0].run if events else RUN
    happened = Counter(each.call_id for each in world.effects)
    settled = {event.call_id: event for event in events if isinstance(event, CallSettled)}
    for result in _results(conversation):
        id, effects = result.tool_call_id, happened[named(run, result.tool_call_id)]
        effect = result.name in ONCE | {"put"}
        if result.outcome == "ok" and effect and not effects:
            yield f"{result.name} {id} is ok and never took place"
        if result.outcome in DID_NOTHING and effect and effects:
            yield f"{result.name} {id} is {result.outcome} and took place"
        if result.outcome == "cancelled" and "before it started" in result.text and effect and effects:
            yield f"{result.name} {id} says that it never started, and took place"
        if effect and effects and id not in ran:
            yield f"{result.name} {id} took place without an intent on record"
        if id in settled and settled[id].ran and id not in ran:
            yield f"{result.name} {id} is said to have run, and was never intended"


def _doubt(events: list[Recorded], conversation: Conversation) -> Iterator[str]:
    """In doubt is exactly what was begun by a process that died before it could say how it ended."""
    open_calls: set[str] = set()
    doubtful: set[str] = set()
    possible: set[str] = set()
    """Effects that may run again or be looked up, but were cancelled before that."""
    tools: dict[str, str] = {}
    for event in events:
        match event:
            case CallIntended():
                tools[event.call_id] = event.tool
                open_calls |= {event.call_id} if event.side_effects else set()
            case CallSettled() | CallAmended():
                open_calls.discard(event.call_id)
            case RunResumed():
                doubtful |= {id for id in open_calls if tools[id] in IN_DOUBT}
                possible |= open_calls
    for result in _results(conversation):
        known = doubtful if result.outcome != "in_doubt" else possible
        if (result.outcome == "in_doubt") != (result.tool_call_id in known):
            yield f"{result.name} {result.tool_call_id} is {result.outcome}; begun and cut off: {sorted(doubtful)}"


def _within_limits(plan: Scenario, conversation: Conversation) -> Iterator[str]:
    replies = sum(isinstance(message, AssistantMessage) for message in conversation.messages)
    finalise = 1 if plan.answer == "words" else plan.limits.wrong_answers
    most = plan.limits.iterations + finalise * (plan.limits.on_limit == "finalise")
    if plan.cancel_at is None and replies > most:
        yield f"the model replied {replies} times; the limit is {most}"


def _results(conversation: Conversation) -> Iterator[ToolResult]:
    return (message.result for message in conversation.messages if isinstance(message, ResultMessage))


def plain(conversation: Conversation) -> list[Any]:
    """The messages without the times at which they were made."""
    return [msgspec.to_builtins(msgspec.structs.replace(message, at=0)) for message in conversation.messages]


def told_otherwise(plan: Scenario, whole: Conversation, resumed: Conversation) -> Iterator[str]:
    """A run that died and was taken up ends as it would have without that, unless nobody knows what a call did."""
    # An agent that came to no answer says what its calls came to.
    in_doubt = any(result.outcome == "in_doubt" or "(in_doubt)" in result.text for result in _results(resumed))
    if plan.fickle or plan.on_error == "fail_fast" or plan.cancel_at is not None or in_doubt:
        return
    if retold(whole) != retold(resumed):
        yield f"it ended otherwise than without a death:\n    {retold(whole)}\n    {retold(resumed)}"


def retold(conversation: Conversation) -> list[Any]:
    """What was said and done, without ids and times: two processes that did the same say the same.

    A call that waited for a person has its result behind the others; how long it waited does not matter either.
    """
    names: dict[str, str] = {}
    results: list[Any] = []
    told: list[Any] = []
    for message in conversation.messages:
        if not isinstance(message, ResultMessage):
            told += sorted(results)
            results = []
        match message:
            case InvocationMessage(call=call):
                names[call.id] = f"call {len(names)}"
                told.append((names[call.id], call.name, call.arguments))
            case ResultMessage(result=result):
                waits = result.outcome == "needs_confirmation"  # then its words name a request
                results.append((names[result.tool_call_id], result.outcome, "" if waits else result.text))
            case _:
                told.append(msgspec.to_builtins(msgspec.structs.replace(message, at=0)))
    return told + sorted(results)
