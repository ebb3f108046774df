"""`python -m soak [--short] [name …]`: runs them, or those that are named, and prints a table. 0 if all went well."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from soak.bus import survives as bus_survives
from soak.isolation import clean
from soak.journal import long
from soak.mcp import survives
from soak.nats import survives as nats_survives
from soak.rlm import tidy
from soak.turns import flat
from soak.verdict import Verdict, command

SIMULATION = "tests.crash.simulation"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
CALL_KILLS = (*PYTEST, "tests/crash/test_killed_calls.py")
KILLS = (*PYTEST, "tests/crash/test_killed_cli.py")
RLM_KILLS = (*PYTEST, "tests/crash/test_killed_rlm.py")

DIALOGUES = "tests/models/local/test_dialogues.py"

REPLICAS = "tests.crash.replicas"
CLUSTER = "soak.cluster"

Job = Callable[[], Verdict]

JOBS: dict[str, tuple[str, Job, Job]] = {
    # name        what it tries                                  the long run, and a short one to see that it works
    "simulation": (
        "thousands of runs that die somewhere",
        lambda: command("-m", SIMULATION, "--seeds", "3000", "--steps", "12"),
        lambda: command("-m", SIMULATION, "--seeds", "60", "--steps", "5"),
    ),
    "every step": (
        "runs that die at every step there is",
        lambda: command("-m", SIMULATION, "--first", "10000", "--seeds", "200"),
        lambda: command("-m", SIMULATION, "--first", "10000", "--seeds", "4"),
    ),
    "disk": (
        "the same with a real journal",
        lambda: command("-m", SIMULATION, "--seeds", "100", "--steps", "30", "--disk"),
        lambda: command("-m", SIMULATION, "--seeds", "5", "--steps", "5", "--disk"),
    ),
    "call kills": (
        "processes killed while they make calls",
        lambda: command(*CALL_KILLS, HANDRAIL_KILLS="2000", HANDRAIL_KILLS_SEED=str(time.time_ns())),
        lambda: command(*CALL_KILLS),
    ),
    "kills": (
        "handrail ask, killed at every point there is",
        lambda: command(*KILLS, HANDRAIL_KILLS="400", HANDRAIL_KILLS_SEED=str(time.time_ns())),
        lambda: command(*KILLS, HANDRAIL_KILLS="10"),
    ),
    "replicas": (
        "three replicas over one PostgreSQL, while they, it and the connections fail",
        lambda: command("-m", REPLICAS, "--effects", "10000", "--faults", "200", "--seed", str(time.time_ns() % 10**9)),
        lambda: command("-m", REPLICAS, "--effects", "30", "--faults", "5"),
    ),
    "cluster": (
        "three nodes over one PostgreSQL, with workers on NATS, while all of it fails",
        lambda: command("-m", CLUSTER, "--effects", "10000", "--faults", "200", "--seed", str(time.time_ns() % 10**9)),
        lambda: command("-m", CLUSTER, "--effects", "60", "--faults", "4"),
    ),
    "rlm kills": (
        "an RLM whose process or sandbox is killed at every point there is",
        lambda: command(*RLM_KILLS, HANDRAIL_KILLS="1000", HANDRAIL_KILLS_SEED=str(time.time_ns())),
        lambda: command(*RLM_KILLS, HANDRAIL_KILLS="10"),
    ),
    "dialogues": (
        "every dialogue with the embedded model",
        lambda: command(*PYTEST, DIALOGUES, HANDRAIL_DIALOGUES="all"),
        lambda: command(*PYTEST, DIALOGUES, "-k", "over_a_hundred"),
    ),
    "payments": (
        "one payment through every door, killed at every step",
        lambda: command("-m", "reliability"),
        lambda: command("-m", "reliability", "--quick", "loop"),
    ),
    "properties": (
        "every property of the tests on new examples",
        lambda: command(*PYTEST, "-n", "auto", "-m", "hypothesis", "tests", HYPOTHESIS_PROFILE="explore"),
        lambda: command(*PYTEST, "-m", "hypothesis", "tests/core/test_jsontext.py"),
    ),
    "rlm": ("completions of one RLM, many of them cancelled or robbed", lambda: tidy(2_000), lambda: tidy(60)),
    "turns": ("a run of a thousand turns", lambda: flat(1000), lambda: flat(200)),
    "isolation": ("calls in worker processes", lambda: clean(10_000), lambda: clean(1_500)),
    "mcp": ("calls of MCP servers that die", lambda: survives(20_000), lambda: survives(300)),
    "nats": ("calls over NATS while all of it dies", lambda: nats_survives(5_000), lambda: nats_survives(100)),
    "bus": (
        "calls over HTTP, WebSocket and NATS while nodes die",
        lambda: bus_survives(15_000),
        lambda: bus_survives(300),
    ),
    "journal": ("a long journal", lambda: long(100_000), lambda: long(5_000)),
    "fuzz": (
        "every decoder fed with nonsense",
        lambda: command("-m", "fuzz", "--seconds", "300"),
        lambda: command("-m", "fuzz", "--seconds", "5"),
    ),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description="Long runs of what the tests try a share of.")
    parser.add_argument("--short", action="store_true", help="only to see that everything runs")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(JOBS))
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(JOBS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are: {', '.join(JOBS)}")
    went_well = True
    for name in chosen.names or JOBS:
        what, whole, short = JOBS[name]
        started = time.monotonic()
        verdict = (short if chosen.short else whole)()
        went_well &= verdict.ok
        _say(f"{name:<12}{'ok' if verdict.ok else 'WRONG':<7}{time.monotonic() - started:>6.0f} s  {what}")
        _say(f"{'':<12}{verdict.figures}")
        if verdict.details:
            _say(verdict.details)
    return 0 if went_well else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
