"""The suite as npm ships it: which scenarios a revision asks for, and one scenario run and judged.

The suite's own summary is not trusted: it calls a scenario whose client never
came a pass. Here one passes only when the program ends well, at least one check
passed and none failed. A scenario that the suite ships without a single check is
never a pass; it is named in `HOLLOW` and shown apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tests.npm_packages import node, package

Role = Literal["server", "client"]
Set = Literal["2025-11-25", "2026-07-28", "tasks"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "@modelcontextprotocol/conformance"
CLIENT = f"{sys.executable} -m conformance.client"
SETS: tuple[Set, ...] = ("2025-11-25", "2026-07-28", "tasks")
HOLLOW = frozenset({"tasks-status-notifications"})
"""Left empty by its authors in this version: it skips itself before it asks the server anything."""

_MODERN = "2026-07-28"
_HEADINGS: dict[str, Role] = {"Server scenarios": "server", "Client scenarios": "client"}
_SLOWEST = 90.0
"""Seconds for one scenario."""


@dataclass(frozen=True, slots=True)
class Scenario:
    role: Role
    set: Set
    name: str

    @property
    def revision(self) -> str:
        return _MODERN if self.set == "tasks" else self.set


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    scenario: Scenario
    passed: int
    failed: int
    code: int
    seconds: float
    why: str
    """What did not hold, in the suite's words."""

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.passed > 0 and self.failed == 0

    @property
    def hollow(self) -> bool:
        """Whether there was nothing to pass."""
        return self.scenario.name in HOLLOW and (self.code, self.passed, self.failed) == (0, 0, 0)


@cache
def scenarios(role: Role, group: Set) -> tuple[Scenario, ...]:
    """What the set asks of a server or a client."""
    if group == "tasks":
        listed = _suite("list", "--server").stdout if role == "server" else ""
        names = [line.split()[1] for line in listed.splitlines() if line.strip().startswith("- tasks-")]
    else:
        names = _listed(_suite("list", "--requirements", group).stdout, role)
    return tuple(Scenario(role, group, name) for name in names)


def run(scenario: Scenario, *, url: str = "", client: str = CLIENT) -> Score:
    """Run one scenario: a server's against `url`, a client's with the program `client`."""
    asked = ["--scenario", scenario.name, "--spec-version", scenario.revision, "--timeout", str(int(_SLOWEST * 800))]
    if scenario.role == "server":
        asked += ["--url", url]
    else:
        asked += ["--command", client]
    if scenario.set == "tasks":
        asked.append("--force")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        done = _suite(scenario.role, *asked, "-o", folder)
        checks = [
            check for file in sorted(Path(folder).rglob("checks.json")) for check in json.loads(file.read_bytes())
        ]
    return _judged(scenario, done, checks, time.monotonic() - began)


def run_together(role: Role, revision: Set, target: str) -> list[Score]:
    """Everything of a revision that concerns a server or a client, its extensions included, by one program: with a
    server's address one scenario after the other, with a client's command all at once.

    It is quicker. A program that ends badly counts against every scenario; how clients end the suite does not look at.
    """
    wanted = [*scenarios(role, revision), *(scenarios(role, "tasks") if revision == _MODERN else ())]
    asked = ["--url", target] if role == "server" else ["--command", target, "--timeout", str(int(_SLOWEST * 2000))]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        done = _suite(role, *asked, "--requirements", revision, "-o", folder, patience=_SLOWEST * 3)
        prefix = "server-" if role == "server" else ""
        found = {each: list(Path(folder).glob(f"{prefix}{each.name}-20*/checks.json")) for each in wanted}
        checks = {
            each: [check for file in files for check in json.loads(file.read_bytes())] for each, files in found.items()
        }
    seconds = (time.monotonic() - began) / len(wanted)
    return [_judged(each, done, checks[each], seconds) for each in wanted]


def version() -> str:
    described: dict[str, Any] = json.loads((package(PACKAGE).parent.parent / "package.json").read_bytes())
    return str(described["version"])


def _judged(
    scenario: Scenario, done: subprocess.CompletedProcess[str], checks: Sequence[dict[str, Any]], seconds: float
) -> Score:
    count = Counter(check["status"] for check in checks)
    wrong = [f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"]
    why = "; ".join(wrong)
    if not why and (done.returncode != 0 or not count["SUCCESS"]):
        why = " ".join((done.stderr or done.stdout).split())[-600:] or "no check passed"
    return Score(
        scenario=scenario,
        passed=count["SUCCESS"],
        failed=count["FAILURE"],
        code=done.returncode,
        seconds=seconds,
        why=why,
    )


def _listed(text: str, role: Role) -> list[str]:
    names: dict[Role, list[str]] = {"server": [], "client": []}
    under: Role | None = None
    for line in text.splitlines():
        match line.split():
            case ["-", name, *_] if under is not None:
                names[under].append(name)
            case [_, *_]:
                under = next((role for heading, role in _HEADINGS.items() if line.startswith(heading)), None)
    return names[role]


def _suite(*arguments: str, patience: float = _SLOWEST) -> subprocess.CompletedProcess[str]:
    compiled = str(ROOT / ".cache" / "node-compiled")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "NODE_COMPILE_CACHE": compiled}
    try:
        return subprocess.run(
            [str(node()), str(package(PACKAGE)), *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 124, "", f"no end within {patience:.0f} s")
