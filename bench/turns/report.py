"""What was found, as Markdown tables and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

AGAINST = "by_hand"
_WINDOWS = {10: (5, 15), 100: (90, 99), 1000: (950, 999)}
"""Turns between which the cost of a turn is taken."""


@dataclass(slots=True)
class Row:
    """One contestant at one job, round by round."""

    name: str
    missing: str = ""
    """Why there are no figures, if there are none."""
    import_ms: float = 0.0
    first_ms: float = 0.0
    """CPU of the whole process when it had done the job once."""
    cpu_ms: list[float] = field(default_factory=list)
    """Per job, one for each round."""
    per_second: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    lag_ms: dict[str, list[float]] = field(default_factory=dict)
    """From the last argument byte of the first and of the last call to the start of its tool, if the job is paced."""
    turn_us: dict[int, list[float]] = field(default_factory=dict)
    """CPU of one turn at the 10th, 100th, 1000th turn, if the job has so many."""

    def add(self, found: Mapping[str, Any], stamps: Sequence[int]) -> None:
        self.cpu_ms.append(found["cpu"] / found["count"] * 1e3)
        self.per_second.append(found["count"] / found["wall"])
        self.took_ms += [each * 1e3 for each in found["took"]]
        self.peak_mb = max(self.peak_mb, found["peak_mb"])
        for which, lags in _lags(found.get("starts", ()), stamps).items():
            self.lag_ms.setdefault(which, []).extend(lags)
        spent = found.get("spent", ())
        for turn, (first, last) in _WINDOWS.items():
            if last < len(spent):
                self.turn_us.setdefault(turn, []).append((spent[last] - spent[first]) / (last - first) / 1e3)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "took_ms": _spread(self.took_ms),
            "lag_ms": {which: _spread(lags) for which, lags in self.lag_ms.items()},
        }


@dataclass(slots=True)
class Weight:
    """What a contestant costs before it does anything."""

    name: str
    import_ms: list[float] = field(default_factory=list)
    """CPU, one for each process that was started."""
    first_ms: list[float] = field(default_factory=list)
    """CPU from the start of the process to its first answer, with one tool: some import much only then."""
    installed_mb: float | None = None
    versions: list[str] = field(default_factory=list)

    def see(self, row: Row, job: str) -> None:
        if row.first_ms:
            self.import_ms.append(row.import_ms)
            self.first_ms += [row.first_ms] if job == "one_tool" else []

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def table(job: str, at_once: int, rows: Sequence[Row]) -> str:
    base = next((row.cpu_ms for row in rows if row.name == AGAINST), [])
    shown = sorted((row for row in rows if row.cpu_ms), key=lambda row: statistics.median(row.cpu_ms))
    turns = sorted({turn for row in shown for turn in row.turn_us})
    paced = any(row.lag_ms for row in shown)
    head = ["contestant", "CPU ms/job", "× by hand", "least–most", "p50 ms", "p99 ms", "jobs/s", "peak MB"]
    head += [f"CPU µs of turn {turn}" for turn in turns]
    head += [
        f"last byte to tool, {which} call, {cut} ms" for which in ("first", "last") for cut in ("p50", "p99")
    ] * paced
    lines = [f"\n## {job}, {at_once} at once\n", _line(head), _line("---" for _ in head)]
    lines += [_line([*_cells(row, base), *_turns(row, turns), *_lagging(row)]) for row in shown]
    lines += [f"\n{row.name}: {row.missing}" for row in rows if row.missing]
    return "\n".join(lines)


def weight_table(weights: Sequence[Weight]) -> str:
    head = ["contestant", "import CPU ms", "least–most", "CPU ms to the first answer", "MB installed"]
    lines = ["\n## Weight\n", _line(head), _line("---" for _ in head)]
    for weight in weights:
        times = weight.import_ms
        cells = (
            [_number(statistics.median(times)), f"{_number(min(times))}–{_number(max(times))}"] if times else ["", ""]
        )
        first = _number(statistics.median(weight.first_ms)) if weight.first_ms else ""
        installed = "" if weight.installed_mb is None else _number(weight.installed_mb)
        lines.append(_line([weight.name, *cells, first, installed]))
    return "\n".join(lines)


def _cells(row: Row, base: Sequence[float]) -> list[str]:
    ratios = [one / other for one, other in zip(row.cpu_ms, base, strict=False)]
    cuts = _spread(row.took_ms)
    return [
        row.name,
        _number(statistics.median(row.cpu_ms)),
        _number(statistics.median(ratios)) if ratios else "",
        f"{_number(min(ratios))}–{_number(max(ratios))}" if ratios else "",
        _number(cuts["p50"]),
        _number(cuts["p99"]),
        _number(statistics.median(row.per_second)),
        _number(row.peak_mb),
    ]


def _turns(row: Row, turns: Sequence[int]) -> list[str]:
    return [_number(statistics.median(row.turn_us[turn])) if turn in row.turn_us else "" for turn in turns]


def _lagging(row: Row) -> list[str]:
    return [_number(_spread(lags)[cut]) for lags in row.lag_ms.values() for cut in ("p50", "p99")]


def _lags(starts: Sequence[tuple[int, int]], stamps: Sequence[int]) -> dict[str, list[float]]:
    """Jobs of two calls came one after another; the calls of each are numbered as they were written."""
    if not starts:
        return {}
    in_order = [start for pair in range(0, len(starts), 2) for _, start in sorted(starts[pair : pair + 2])]
    lags = [(start - stamp) / 1e6 for start, stamp in zip(in_order, stamps, strict=True)]
    return {"first": lags[::2], "last": lags[1::2]}


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return {"least": min(values), "p50": cuts[49], "p99": cuts[98], "most": max(values)}


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def machine(*, pinned: bool) -> dict[str, Any]:
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
        "pinned": pinned,
        "load": os.getloadavg(),
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as info:
        named = (line.partition(":")[2].strip() for line in info if line.startswith("model name"))
        return next(named, platform.machine())
