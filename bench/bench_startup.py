"""What the commands cost before they do anything: CPU and wall time, beside the command lines of others.

    python bench/bench_startup.py [--rounds 11]

`… --help` is measured to its end, a *question* to the first byte that it sends to a model, which is a socket here, and
a *hook* is one decision by a rule on a command that a coding agent wants to run, with its entries in a journal.

`llm` and pydantic-ai's `clai` run in environments of their own (`.cache/bench`, from `bench/peers/*_command.txt`); `gh`
is measured where it is installed. Medians of interleaved rounds. A table goes to stderr, JSON to stdout. It
ends with 1 if a hook takes 100 ms of CPU or more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.turns.homes import python
from bench.turns.processes import Lost

PATIENCE = 60.0
MOST_HOOK_CPU = 100.0
HANDRAIL = str(Path(sys.executable).with_name("handrail"))


@dataclass(frozen=True)
class Place:
    """A folder with a configuration, a home of its own, and a socket that stands for a model."""

    folder: Path
    model: socket.socket
    calls: Counter[str] = field(default_factory=Counter)

    def next_call(self, event: str) -> int:
        self.calls[event] += 1
        return self.calls[event]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.model.getsockname()[1]}/v1"

    @property
    def environment(self) -> dict[str, str]:
        own = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state"), "OPENAI_API_KEY": "none"}
        return {**os.environ, **own, "OPENAI_BASE_URL": self.url, "LLM_USER_PATH": str(self.folder / "llm")}


@dataclass(frozen=True)
class Spent:
    cpu: float
    wall: float


@dataclass
class Row:
    name: str
    measure: Callable[[], Spent]
    spent: list[Spent] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        return {what: statistics.median(getattr(each, what) for each in self.spent) for what in ("cpu", "wall")}


def to_its_end(command: Sequence[str], place: Place, given: bytes = b"") -> Spent:
    started = time.perf_counter()
    process = _start(command, place, subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Spent((used.ru_utime + used.ru_stime) * 1000, (time.perf_counter() - started) * 1000)


def to_first_byte(command: Sequence[str], place: Place) -> Spent:
    started = time.perf_counter()
    process = _start(command, place, subprocess.DEVNULL)
    try:
        place.model.settimeout(PATIENCE)
        connection, _ = place.model.accept()
        with connection:
            connection.recv(1)
            return Spent(_cpu_so_far(process.pid), (time.perf_counter() - started) * 1000)
    finally:
        process.kill()
        process.wait()


def _start(command: Sequence[str], place: Place, given: int) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=given, stdout=quiet, stderr=quiet, cwd=place.folder, env=place.environment)


def _cpu_so_far(process: int) -> float:
    """Milliseconds on a processor, of all its threads."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def rows(place: Place) -> list[Row]:
    found = [
        Row("python -c pass", lambda: to_its_end([sys.executable, "-c", "pass"], place)),
        Row("handrail --help", lambda: to_its_end([HANDRAIL, "--help"], place)),
        Row("handrail ask --help", lambda: to_its_end([HANDRAIL, "ask", "--help"], place)),
        Row("handrail hook, a call begins", lambda: _hook(place, "PreToolUse")),
        Row("handrail hook, it ends", lambda: _hook(place, "PostToolUse")),
        Row("handrail ask, question", lambda: to_first_byte([HANDRAIL, "ask", "hello"], place)),
    ]
    if (llm := _command("llm_command", "llm")) is not None:
        found.append(Row("llm --help", lambda: to_its_end([llm, "--help"], place)))
        found.append(Row("llm, question", lambda: to_first_byte([llm, "-m", "bench", "hello"], place)))
    if (clai := _command("clai_command", "clai")) is not None:
        found.append(Row("clai --help", lambda: to_its_end([clai, "--help"], place)))
        found.append(Row("clai, question", lambda: to_first_byte([clai, "-m", "openai-chat:bench", "hello"], place)))
    if (gh := shutil.which("gh")) is not None:
        found.append(Row("gh --help", lambda: to_its_end([gh, "--help"], place)))
    else:
        print("gh is not installed, so it is left out", file=sys.stderr)
    return found


def _hook(place: Place, event: str) -> Spent:
    said = {
        "session_id": "bench",
        "cwd": str(place.folder),
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": "git status"},
        "tool_use_id": f"toolu_{place.next_call(event)}",
        "tool_response": {"stdout": "nothing to commit"},
    }
    return to_its_end([HANDRAIL, "hook", "claude"], place, json.dumps(said).encode())


def _command(name: str, program: str) -> str | None:
    try:
        return str(python(name).with_name(program))
    except Lost as error:
        print(f"{program} is left out: {error}", file=sys.stderr)
        return None


def prepare(place: Place) -> None:
    rules = 'rules = ["allow Bash command=git**"]'
    model = f'[models.bench]\nprovider = "compatible"\nmodel = "bench"\nbase_url = "{place.url}"\n'
    (place.folder / "handrail.toml").write_text(f'default_model = "bench"\n{rules}\n{model}')
    (place.folder / "llm").mkdir()
    known = f'- model_id: bench\n  model_name: bench\n  api_base: "{place.url}"\n'
    (place.folder / "llm" / "extra-openai-models.yaml").write_text(known)
    subprocess.run(
        [HANDRAIL, "approve", "--yes"], cwd=place.folder, env=place.environment, check=True, capture_output=True
    )


def main(rounds: int) -> int:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as model:
        place = Place(Path(folder), model)
        prepare(place)
        measured = rows(place)
        for _ in range(rounds):
            for row in measured:
                row.spent.append(row.measure())
    found = {row.name: row.medians() for row in measured}
    print(f"{'':28}{'CPU ms':>10}{'wall ms':>10}", file=sys.stderr)
    for name, each in found.items():
        print(f"{name:28}{each['cpu']:10.0f}{each['wall']:10.0f}", file=sys.stderr)
    print(json.dumps(found))
    return int(any(each["cpu"] >= MOST_HOOK_CPU for name, each in found.items() if "hook" in name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    sys.exit(main(parser.parse_args().rounds))
