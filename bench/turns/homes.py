"""Where each contestant lives: its module, and the environment that it runs in.

handrail and the loops by hand run in the environment of this process. A peer has one
of its own under `.cache/bench`, made when it is first asked for from `bench/peers/<name>.txt`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from bench.turns.processes import CACHE, ROOT, Lost
from handrail.core.watched_command import CommandSilent, ProgressLine, run_pip

OWN = (
    "by_hand",
    "by_hand_msgspec",
    "handrail_session",
    "handrail_session_journal",
    "handrail",
    "handrail_journal",
    "handrail_search",
)
PEERS = ("pydantic_ai", "openai_agents", "langchain", "litellm")
PROGRAMS = ("pydantic_ai_programs",)
"""Peers with what programs of the docs need besides: MCP and a web server. Nothing is measured there."""
COMMANDS = ("llm_command", "clai_command")
"""Command lines of others, for `bench_startup.py`: made when they are first measured."""
_PINNED = (*PEERS, *PROGRAMS, *COMMANDS)
_PINS = ROOT / "bench" / "peers"
_WEIGHED = {
    "by_hand": ["-c", str(ROOT / "constraints.txt"), "aiohttp"],
    "handrail": ["-c", str(ROOT / "constraints.txt"), f"{ROOT}[http]"],
}
"""What is installed only to see how large it is: these run elsewhere."""


def module(name: str) -> str:
    return f"bench.peers.{name}" if name in PEERS else f"bench.turns.contestants.{name}"


def python(name: str) -> Path:
    """The interpreter that a contestant runs in.

    Raises:
        Lost: Its environment cannot be made.
    """
    return _environment(name) if name in _PINNED else Path(sys.executable)


def megabytes(name: str) -> float | None:
    """What a fresh environment with nothing else holds, compiled files included. None if nobody can say."""
    if name not in (*PEERS, *_WEIGHED):
        return None
    packages = next(_environment(name).parents[1].glob("lib/python*/site-packages"))
    return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6


def versions(name: str) -> list[str]:
    """The packages of a peer, as pinned."""
    return (_PINS / f"{name}.txt").read_text().split() if name in PEERS else []


def _environment(name: str) -> Path:
    wanted = _WEIGHED.get(name) or ["-r", str(_PINS / f"{name}.txt")]
    place, mark = CACHE / name, _mark(name)
    interpreter, note = place / "bin" / "python", place / "made_from"
    if not note.exists() or note.read_text() != mark:
        note.unlink(missing_ok=True)
        print(f"· fetching {name} into {place.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(place)], check=True)
        _install(["--python", str(interpreter), "install", "--verbose", *wanted], name)
        note.write_text(mark)
    return interpreter


def _mark(name: str) -> str:
    source = _PINS / f"{name}.txt" if name in _PINNED else ROOT / "pyproject.toml"
    return sha256(source.read_bytes()).hexdigest()


def _install(arguments: Sequence[str], name: str) -> None:
    with ProgressLine(prefix=f"  {name}: ") as progress:
        try:
            done = run_pip(arguments, name, show=progress.show, cwd=ROOT)
        except CommandSilent as error:
            raise Lost(str(error)) from None
    if done.code:
        raise Lost(f"{name} cannot be installed: {done.reason}")
