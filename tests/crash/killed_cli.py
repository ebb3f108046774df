"""Runs `handrail ask` again and again, each time killed with SIGKILL at another point, and `handrail resume` after it.

`python -m tests.crash.killed_cli FOLDER SEED COUNT` forks a process for every command, so
that each has what is loaded once, and prints what came of each point as a line of JSON.
Three kinds of death: at a commit of the journal, at an effect of a tool, and when the
model has sent so many pieces. Between the two a person looks at what the payments did,
and says so, with the commands that there are for that.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from handrail.cli import main as handrail_main
from handrail.core.events import Recorded
from handrail.journal.entry import EntryDraft
from handrail.journal.reader import history
from handrail.journal.writer import JournalWriter
from handrail.run.history import conversation_of
from tests.approved import approve
from tests.crash.planned_service import PlannedService

Plan = dict[str, Any]

CONFIG = """
default_model = "planned"

[models.planned]
provider = "openai"
model = "gpt-4.1"
key = "env:PLANNED_API_KEY"
base_url = "http://127.0.0.1:{port}/{name}"

[llm]
tools_max_iterations = 12
"""

TOOLS = '''
import json
import os
import signal
from pathlib import Path

from handrail import Invocation, tool

OWED = {"ada": 5, "bob": 7, "eve": 9}


def act(*words: object) -> None:
    """A line that is on disk when this returns, with a place to die before and after it."""
    path = Path("effects")
    number = len(path.read_text().splitlines()) if path.exists() else 0
    plan = json.loads(Path("plan.json").read_text()) if os.environ.get("MORTAL") else {}
    if plan.get("effect") == [number, "before"]:
        os.kill(os.getpid(), signal.SIGKILL)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\\n").encode())
    os.fsync(file)
    os.close(file)
    if plan.get("effect") == [number, "after"]:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
def look(name: str) -> str:
    """Look up what somebody is owed."""
    return f"{name} is owed {OWED[name]}"


@tool(side_effects=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    act("pay", to, amount)
    return f"paid {amount} to {to}"


@tool(side_effects=True, idempotent=True)
def note(text: str, invocation: Invocation) -> str:
    """Write something down."""
    act("note", invocation.idempotency_key)
    return f"noted {text}"
'''

PRELOADED = (
    "handrail.app",
    "handrail.cli.ask",
    "handrail.cli.confirm.requests",
    "handrail.cli.proof.runs",
    "handrail.cli.proof.verify",
    "handrail.cli.resume",
    "handrail.sessions.create",
    "handrail.models.openai_chat",
    "handrail.models.transport",
)


def fill(folder: Path, port: int, plan: Plan) -> None:
    folder.mkdir()
    (folder / "handrail.toml").write_text(CONFIG.format(port=port, name=folder.name))
    (folder / "tools.py").write_text(TOOLS)
    (folder / "plan.json").write_text(json.dumps(plan))
    approve(folder / "handrail.toml")


def deadly(plan: Plan) -> None:
    """In a child: let its journal be a place to die at, and count its commits."""
    commit = JournalWriter.commit
    done = 0

    def counted(writer: JournalWriter, drafts: Sequence[EntryDraft], durable: bool) -> None:
        nonlocal done
        if plan.get("commit") == [done, "before"]:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(writer, drafts, durable)
        if plan.get("commit") == [done, "after"]:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        Path("commits").write_text(str(done))

    JournalWriter.commit = counted  # type: ignore[method-assign, assignment]  # the only thing it changes is when the process ends


def command(folder: Path, *words: str, plan: Plan | None = None) -> tuple[int, str]:
    """`handrail WORDS` in a forked child, in the folder: its status, and what it printed."""

    def job() -> int:
        os.chdir(folder)
        (folder / "pid").write_text(str(os.getpid()))
        for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, "out", _NEW), (2, "err", _NEW)):
            os.dup2(os.open(name, flags, 0o600), number)
        os.environ["PLANNED_API_KEY"] = "sk-planned-000000"
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
        if plan is not None:
            os.environ["MORTAL"] = "yes"
            deadly(plan)
        sys.argv = ["handrail", *words]
        try:
            return handrail_main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    status = forked(job)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _BUG:
        raise RuntimeError(f"handrail {' '.join(words)}: {(folder / 'err').read_text()}")
    return status, (folder / "out").read_text()


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_BUG = 99


def forked(job: Callable[[], int]) -> int:
    """Run a job in a child and wait for its end, whatever that is."""
    pid = os.fork()
    if pid == 0:
        code = _BUG
        try:
            code = job()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def one(root: Path, port: int, name: str, plan: Plan) -> dict[str, Any]:
    """Ask, be killed, look, resume: what came of it."""
    folder = root / name
    fill(folder, port, plan)
    asking = ("ask", "--tools", "tools.py", "--yes", "pay what is owed")
    status, out = command(folder, *asking, plan=plan)
    run = run_of(folder)
    left, looked = recorded(folder, run), person(folder, run)
    killed = os.WIFSIGNALED(status)
    if killed:
        words = asking if run is None else ("resume", run, "--tools", "tools.py", "--yes")
        status, out = command(folder, *words)
        run = run or run_of(folder)
    verified, _ = command(folder, "proof", "verify")
    return {
        "plan": plan,
        "killed": killed,
        "left": left,
        "looked": looked,
        "status": status,
        "answer": out,
        "errors": (folder / "err").read_text() if status else "",
        "verified": verified == 0,
        "effects": (folder / "effects").read_text().splitlines(),
        "conversation": msgspec.to_builtins(conversation_of(events(folder, run)).messages),
        "served": number_in(folder / "served"),
        "commits": number_in(folder / "commits"),
    }


def number_in(path: Path) -> int:
    """What a process counted that may have been killed while it wrote the number."""
    return int(path.read_text() or 0) if path.exists() else 0


def person(folder: Path, run: str | None) -> list[str]:
    """Somebody looks what became of the payments that are in doubt, and says so."""
    if run is None or recorded(folder, run).count("call.intended") == recorded(folder, run).count("call.settled"):
        return []
    said = []
    _, shown = command(folder, "proof", "show", run, "--json")
    entries = [json.loads(line) for line in shown.splitlines()]
    settled = {entry["call_id"] for entry in entries if entry["type"] == "call.settled"}
    for entry in entries:
        if entry["type"] == "call.intended" and entry["tool"] == "pay" and entry["call_id"] not in settled:
            to, amount = entry["arguments"]["to"], entry["arguments"]["amount"]
            effects = (folder / "effects").read_text().splitlines() if (folder / "effects").exists() else []
            found = f"pay {to} {amount}" in effects
            words = ("--ran", f"paid {amount} to {to}") if found else ("--not-run",)
            status, _ = command(folder, "confirm", "settle", run, entry["call_id"], *words, "--by", "ada")
            said.append("ran" if found else "not run")
            if status:
                raise RuntimeError((folder / "err").read_text())
    return said


def run_of(folder: Path) -> str | None:
    """The run that the journal has, if it came to be one."""
    if not (folder / ".handrail" / "journal.db").exists():
        return None
    status, out = command(folder, "proof", "list", "--json")
    if status:  # it died before the file was a journal
        return None
    runs = [json.loads(line)["run"] for line in out.splitlines()]
    begun = [run for run in runs if conversation_of(events(folder, run)).messages]
    return begun[-1] if begun else None


def events(folder: Path, run: str | None) -> list[Recorded]:
    return [] if run is None else history(folder / ".handrail" / "journal.db", run)


def recorded(folder: Path, run: str | None) -> list[str]:
    """The kinds of entries that the dead process left."""
    return [str(event.__struct_config__.tag) for event in events(folder, run)]


def plans(whole: dict[str, Any], seed: int, count: int) -> Iterator[Plan]:
    """Points spread over the whole run: every effect, commits, and pieces of the replies."""
    chance = random.Random(seed)
    effects: list[Plan] = [{"effect": [n, when]} for n in range(len(whole["effects"])) for when in ("before", "after")]
    commits: list[Plan] = [{"commit": [n, when]} for n in range(whole["commits"]) for when in ("before", "after")]
    served: list[Plan] = [{"served": n} for n in range(1, whole["served"] + 1)]
    chosen = effects[:count]
    left = count - len(chosen)
    chosen += _spread(commits, left * 3 // 4, chance)
    chosen += _spread(served, count - len(chosen), chance)
    yield from islice(cycle(chosen), count)  # where there are no more points, the same again at another moment


def _spread(points: list[Plan], count: int, chance: random.Random) -> list[Plan]:
    """So many of them: the first, the last, and any in between."""
    if count >= len(points):
        return points
    between = chance.sample(range(1, len(points) - 1), max(0, count - 2))
    return [points[at] for at in sorted({0, *between, len(points) - 1})][:count]


def main(root: Path, seed: int, count: int) -> None:
    for module in PRELOADED:
        __import__(module)
    listen, announce = os.pipe()
    service = os.fork()
    if service == 0:
        os.close(listen)
        asyncio.run(PlannedService(root).serve(announce))
        os._exit(0)
    os.close(announce)
    try:
        with open(listen) as port:
            number = int(port.readline())
        whole = one(root, number, "whole", {})
        tell(whole)
        for n, plan in enumerate(plans(whole, seed, count)):
            tell(one(root, number, str(n), plan))
    finally:
        os.kill(service, signal.SIGTERM)
        os.waitpid(service, 0)


def tell(life: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(life) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
