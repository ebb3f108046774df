"""Runs programs of the docs where another framework is installed; several are forked off one process that has imported
it, as importing takes long."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.turns.homes import PEERS, python
from bench.turns.processes import CACHE, environment
from tests.docs.pages import ROOT

PATIENCE = 300
_BETWEEN = "--- the next program\n"
_IMPORTED = {
    "langchain": ("langchain.agents", "langchain_openai", "langgraph.checkpoint.memory"),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai", "pydantic_ai.models.openai"),
}
_ALL = f"""
import importlib, os, runpy, sys
from pathlib import Path
for name in sys.argv[1].split():
    importlib.import_module(name)
for path in sys.argv[2:]:
    if os.fork() == 0:
        sys.path[0] = str(Path(path).parent)
        runpy.run_path(path, run_name="__main__")
        sys.exit()
    if os.waitstatus_to_exitcode(os.wait()[1]):
        sys.exit(f"{{path}} failed")
    print({_BETWEEN!r}, end="", flush=True)
"""


def run_with(peer: str, *programs: Path, folder: Path, **variables: str) -> list[str]:
    """What each program prints, in the environment of a peer that `scripts/setup_peers.py` made."""
    assert peer in PEERS
    assert (CACHE / peer / "made_from").exists(), f"{peer} is not installed: run `make suite`"
    done = subprocess.run(
        [python(peer), "-c", _ALL, " ".join(_IMPORTED[peer]), *(ROOT / program for program in programs)],
        cwd=folder,
        env={**environment(), "PYTHONPATH": "", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split(_BETWEEN)[:-1]
