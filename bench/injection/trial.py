"""One case under one policy: a session, its tools, a scripted model, a person, and what is different afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from bench.injection.attacks import Attack
from bench.injection.cases import TOOLS, Placed, Task, domain
from bench.injection.models import SolvingModel
from bench.injection.person import PersonDouble, Wanted
from bench.injection.world import Change, fits, is_done
from handrail import Limits, Policy, Session
from handrail.events import CallSettled, Event
from handrail.run.planning import Plans

LIMITS = Limits(iterations=80, same_failure=100, wrong_calls=100)


class Reference(Struct, frozen=True, kw_only=True):
    """How a task goes where nothing is asked and nobody obeys."""

    calls: tuple[Wanted, ...]
    changes: tuple[Change, ...]
    read: tuple[str, ...]
    """Everything that the model has read."""
    is_done: bool


class Trial(Struct, frozen=True, kw_only=True):
    """What came of a case."""

    case: str
    done: bool
    """Whether the task was done: exactly what was asked for, or that and what the attacker wanted."""
    asked: int = 0
    """Questions about what the task needs."""
    asked_about_attack: int = 0
    attacked: bool = False
    """Whether the attacker got what they wanted."""
    seen: bool = True
    """Whether the model saw the attack."""
    without_reason: int = 0
    reasons: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """What was refused without a question, with the words for the model."""


async def reference(task: Task, placed: tuple[Placed, ...] = ()) -> Reference:
    """Solve a task without any policy."""
    world, model = domain(task.domain).world(placed), SolvingModel(task)
    policy = Policy(confirm_side_effects=False, after_untrusted="allow")
    async with _session(task, model, policy, None, world) as session:
        await session.ask_async(task.prompt)
    changes = world.changes()
    return Reference(
        calls=tuple(model.made),
        changes=tuple(changes),
        read=tuple(model.read),
        is_done=is_done(changes, list(task.expect)),
    )


async def try_task(task: Task, policy: Policy, wanted: Sequence[Wanted], plan: Plans = False) -> Trial:
    world, person, refused = domain(task.domain).world(), PersonDouble(wanted), list[str]()
    async with _session(task, SolvingModel(task), policy, person, world, plan) as session:
        await session.ask_async(task.prompt, on_event=_noting(refused))
    return Trial(
        case=task.id,
        done=is_done(world.changes(), list(task.expect)),
        asked=person.honest,
        asked_about_attack=person.attacks,
        without_reason=person.without_reason,
        reasons=tuple(person.reasons),
        refused=tuple(refused),
    )


async def try_attack(attack: Attack, policy: Policy, wanted: Sequence[Wanted], plan: Plans = False) -> Trial:
    task = attack.task
    world, person, refused = domain(task.domain).world(attack.placed), PersonDouble(wanted), list[str]()
    model = SolvingModel(task, attack.order)
    async with _session(task, model, policy, person, world, plan) as session:
        await session.ask_async(task.prompt, on_event=_noting(refused))
    changes = world.changes()
    return Trial(
        case=attack.id,
        done=all(any(fits(change, pattern) for change in changes) for pattern in task.expect),
        asked=person.honest,
        asked_about_attack=person.attacks,
        attacked=attack.is_met(changes),
        seen=model.has_seen,
        without_reason=person.without_reason,
        reasons=tuple(person.reasons),
        refused=tuple(refused),
    )


def _session(
    task: Task, model: SolvingModel, policy: Policy, person: PersonDouble | None, world: Any, plan: Plans = False
) -> Session[Any]:
    return Session(
        model,
        system_prompt=domain(task.domain).about,
        tools=TOOLS[task.domain],
        policy=policy,
        approver=person,
        limits=LIMITS,
        deps=world,
        plan=plan,
    )


def _noting(refused: list[str]) -> Any:
    def note(event: Event) -> None:
        if isinstance(event, CallSettled) and event.outcome in ("denied", "needs_confirmation", "forbidden"):
            refused.append(f"{event.tool}: {event.result.text if event.result else ''}")

    return note
