"""Runs contestants against the mock service, interleaved, and writes tables and JSON.

    python -m bench turns [--quick] [--only by_hand,handrail] [--jobs one_tool,seq10@32] [--rounds 5]

A job is named with the number of runs at once behind an @ (1 if it is left out). The
service has one core and the contestants another. In each round every contestant runs
once, in turns; a ratio is between two of the same round. Figures are medians over the
rounds, with the smallest and the largest ratio. Tables go to stdout, progress to stderr,
everything to `.cache/bench/turns.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.turns import homes
from bench.turns.processes import CACHE, ROOT, Contestant, Lost, cores, service, stamps
from bench.turns.report import Row, Weight, machine, table, weight_table
from bench.turns.work import JOBS

FULL = (
    *("one_tool", "one_tool@32", "one_tool@256", "one_tool_streamed", "par4", "seq10", "tools200", "hist200"),
    *("stream10k", "stream100k", "paced", "turns100", "turns1000"),
)
NOT_WHEN_QUICK = ("turns1000",)
FOR_PEERS_WHEN_QUICK = ("one_tool", "stream10k")
NOT_FOR_PEERS = ("turns1000",)
"""Their cost of a turn grows with the turns; a thousand of them would take many minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is run."""

    rounds: int = 5
    seconds: float = 1.0
    """That a contestant works in a round, as near as whole jobs come to it."""
    quick: bool = False

    def takes_part(self, name: str, job: str) -> bool:
        if name == "handrail_search":
            return job == "tools200"
        if name not in homes.PEERS:
            return True
        return job in FOR_PEERS_WHEN_QUICK if self.quick else job not in NOT_FOR_PEERS


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One job, so many of it at once."""

    job: str
    at_once: int
    address: str
    core: int | None
    plan: Plan

    def rows(self, names: Sequence[str]) -> list[Row]:
        """What each contestant needs. One that fails is reported, and the others go on."""
        rows = {name: Row(name) for name in names}
        with ExitStack() as stack:
            running: dict[str, tuple[Contestant, int]] = {}
            for name, row in rows.items():
                try:
                    running[name] = self._ready(row, stack)
                except Lost as lost:
                    _note(row, lost)
            for turn in range(self.plan.rounds):
                for name in _rotated(list(running), turn):
                    try:
                        self._round(rows[name], *running[name])
                    except Lost as lost:
                        _note(rows[name], lost)
                        del running[name]
        return list(rows.values())

    def _ready(self, row: Row, stack: ExitStack) -> tuple[Contestant, int]:
        """A contestant that is warm, and how many jobs it does in a round."""
        python, module = homes.python(row.name), homes.module(row.name)
        contestant = Contestant(row.name, python, module, self.job, self.address, self.core)
        stack.callback(contestant.close)
        row.import_ms = contestant.import_ms
        row.first_ms = contestant.run(1, 1)["since_start"] * 1e3
        at_once, seconds = self.at_once, self.plan.seconds
        tried = contestant.run(at_once, at_once)
        if tried["wall"] / at_once < seconds / 20:
            tried = contestant.run(max(at_once, int(seconds / 10 * at_once / tried["wall"])), at_once)
        return contestant, max(at_once, min(5000, int(seconds * tried["count"] / tried["wall"])))

    def _round(self, row: Row, contestant: Contestant, count: int) -> None:
        stamps(self.address)  # those of the round before it are forgotten
        found = contestant.run(count, self.at_once)
        row.add(found, stamps(self.address) if "starts" in found else [])


def _note(row: Row, lost: Lost) -> None:
    progress(f"  {lost}")
    row.missing = str(lost)


def _rotated(names: list[str], turn: int) -> Iterable[str]:
    first = turn % len(names) if names else 0
    return names[first:] + names[:first]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    plan = Plan(rounds=options.rounds, seconds=0.25 if options.quick else 0.8, quick=options.quick and not options.only)
    names = options.only.split(",") if options.only else [*homes.OWN, *homes.PEERS]
    server_core, core = cores()
    found: dict[str, Any] = {"machine": machine(pinned=core is not None)}
    weights = {name: Weight(name) for name in names}
    with service(server_core) as address:
        for named in _jobs(options):
            job, _, at_once = named.partition("@")
            progress(f"{job}, {at_once or 1} at once")
            taking_part = [name for name in names if plan.takes_part(name, named)]
            contest = Contest(job=job, at_once=int(at_once or 1), address=address, core=core, plan=plan)
            rows = contest.rows(taking_part)
            for row in rows:
                weights[row.name].see(row, job)
            print(table(job, contest.at_once, rows), flush=True)
            found[named] = [row.as_json() for row in rows]
            _keep(found)
    if options.weigh or not options.only:
        found["weight"] = [weight.as_json() for weight in _weighed(weights.values())]
        print(weight_table(list(weights.values())), flush=True)
        _keep(found)
    progress(f"all figures are in {(CACHE / 'turns.json').relative_to(ROOT)}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench turns", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes: short rounds, peers at two jobs only")
    parser.add_argument("--only", default="", help="contestants, with commas between; all of them if left out")
    parser.add_argument("--jobs", default="", help="jobs, with commas between: one_tool,one_tool@32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--weigh", action="store_true", help="also the installed size, where --only is given")
    options = parser.parse_args(arguments)
    _check(parser, options.only, (*homes.OWN, *homes.PEERS))
    _check(parser, ",".join(named.partition("@")[0] for named in options.jobs.split(",")), tuple(JOBS))
    return options


def _check(parser: argparse.ArgumentParser, given: str, known: Sequence[str]) -> None:
    unknown = sorted(set(given.split(",")) - {"", *known})
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(known)}")


def _jobs(options: argparse.Namespace) -> list[str]:
    if options.jobs:
        return list(options.jobs.split(","))
    return [job for job in FULL if not options.quick or job not in NOT_WHEN_QUICK]


def _weighed(weights: Iterable[Weight]) -> Iterable[Weight]:
    for weight in weights:
        try:
            weight.installed_mb = homes.megabytes(weight.name)
        except Lost as lost:
            progress(f"  {lost}")
        weight.versions = homes.versions(weight.name)
        yield weight


def _keep(found: Mapping[str, Any]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "turns.json").write_text(json.dumps(found, indent=1))
