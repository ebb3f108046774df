"""A target for so many examples, or for so long; and what was found, reduced, as a file."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from fuzz.law import SECONDS, Target, on_time

FINDINGS = Path(__file__).parent / "findings"
ROUND = 100
"""Examples of one target before it is the next one's turn."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    input: Any
    error: BaseException

    def __str__(self) -> str:
        trace = "".join(traceback.format_exception(self.error))
        return f"target: {self.target}\n\ninput:\n{self.input!r}\n\n{trace}"

    def write(self, folder: Path = FINDINGS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(repr(self.input).encode(errors="replace")).hexdigest()[:12]
        path = folder / f"{self.target}-{name}.txt"
        path.write_text(str(self), "utf-8", errors="backslashreplace")
        return path


def examine(target: Target, examples: int, seed: int | None = None, *, seconds: float = SECONDS) -> Finding | None:
    """So many examples; without a seed always the same ones. What breaks the law is reduced first."""
    last: list[Any] = []

    def law(value: Any) -> None:
        last[:] = [value]
        with on_time(seconds):
            target.law(value)

    checked = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
    )(given(target.inputs)(law))
    try:
        (checked if seed is None else hypothesis.seed(seed)(checked))()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not last:  # without an input it is the target that is wrong
            raise
        return Finding(target.name, last[0], error)
    return None


def examine_all(
    targets: Sequence[Target], seconds: float, say: Say, seed: int, folder: Path = FINDINGS
) -> list[Finding]:
    """All of them in turn until the time is over; one in which something was found is not asked again."""
    end = time.monotonic() + seconds
    found: dict[str, Finding] = {}
    counts = dict.fromkeys((target.name for target in targets), 0)
    rounds = 0
    while time.monotonic() < end and len(found) < len(targets):
        rounds += 1
        for target in targets:
            if time.monotonic() >= end or target.name in found:
                continue
            finding = examine(target, ROUND // target.cost, seed + rounds)
            counts[target.name] += ROUND // target.cost
            if finding is not None:
                found[target.name] = finding
                say(f"{target.name}: {type(finding.error).__name__}: {finding.error}\n  {finding.write(folder)}")
        say(f"round {rounds}: {sum(counts.values())} examples, {len(found)} findings")
    return list(found.values())
