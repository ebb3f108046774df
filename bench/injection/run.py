"""Runs every case under every policy, and prints the table.

    python -m bench injection [--only origins] [--domain mail] [--details] [--no-cost]

The table goes to stdout, everything to `.cache/bench/injection.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from bench.injection.attacks import Attack, all_attacks
from bench.injection.cases import DOMAINS, Task, all_tasks
from bench.injection.cost import SCENARIOS, cost
from bench.injection.report import Column, details, table
from bench.injection.trial import Reference, reference, try_attack, try_task
from handrail import Policy
from handrail.execute.policy import AfterUntrusted
from handrail.run.planning import Plans

REFUSES = "`deny`"
"""Under it the calls whose cost is taken would not run."""
WRITTEN = Path(".cache") / "bench" / "injection.json"
PLANS: Mapping[str, Plans] = {"`origins`, with a plan": True, "`origins`, with an allowed plan": "ask"}
"""The columns in which the model states a plan first."""
POLICIES: Mapping[str, Policy] = {
    "no policy": Policy(confirm_side_effects=False, after_untrusted="allow"),
    "every effect asked": Policy(confirm_side_effects=True, after_untrusted="allow"),
    **{
        f"`{name}`": Policy(confirm_side_effects=False, after_untrusted=name)
        for name in get_args(AfterUntrusted)
        if name != "allow"
    },
    **{name: Policy(confirm_side_effects=False) for name in PLANS},
}


async def columns(
    tasks: Sequence[Task], attacks: Sequence[Attack], policies: Mapping[str, Policy] = POLICIES
) -> list[Column]:
    """Every case under every policy."""
    plain: dict[str, Reference] = {task.id: await reference(task) for task in tasks}
    attacked: dict[str, Reference] = {each.id: await reference(each.task, each.placed) for each in attacks}
    found = []
    for name, policy in policies.items():
        column, plan = Column(policy=name), PLANS.get(name, False)
        for task in tasks:
            column.tasks.append(await try_task(task, policy, plain[task.id].calls, plan))
        for attack in attacks:
            column.attacks.append(await try_attack(attack, policy, attacked[attack.id].calls, plan))
        found.append(column)
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench injection", description=__doc__)
    parser.add_argument("--only", help="a word that the name of a policy holds")
    parser.add_argument("--domain", choices=DOMAINS)
    parser.add_argument("--details", action="store_true", help="name the cases behind the numbers")
    parser.add_argument("--no-cost", action="store_true")
    asyncio.run(_main(parser.parse_args(arguments)))


async def _main(options: argparse.Namespace) -> None:
    tasks = [task for task in all_tasks() if options.domain in (None, task.domain)]
    attacks = [each for each in await all_attacks() if options.domain in (None, each.task.domain)]
    policies = {name: policy for name, policy in POLICIES.items() if not options.only or options.only in name}
    found = await columns(tasks, attacks, policies)
    sends: dict[str, dict[str, float]] = {}
    whole: dict[str, dict[str, float]] = {}
    if not options.no_cost:
        compared = {
            "no policy": POLICIES["no policy"],
            **{k: v for k, v in policies.items() if k != REFUSES and k not in PLANS},
        }
        for what, scenario in SCENARIOS.items():
            sends[what], whole[what] = await cost(compared, scenario)
    print(table(found, sends))
    for what, ratios in whole.items():
        print(f"\nThe whole session, with {what}: " + ", ".join(f"{name} {at:.2f}" for name, at in ratios.items()))
    if options.details:
        print(json.dumps(details(found), indent=1))
    WRITTEN.parent.mkdir(parents=True, exist_ok=True)
    written = {each.policy: {**each.rows(), **told} for each, told in zip(found, details(found).values(), strict=True)}
    WRITTEN.write_text(json.dumps({"cases": written, "sends": sends, "whole": whole}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
