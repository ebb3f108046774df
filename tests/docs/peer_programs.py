"""Runs programs of the docs where another framework is installed; several in one process, as importing takes long."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.turns.homes import PEERS, python
from bench.turns.processes import CACHE, environment
from tests.docs.pages import ROOT

PATIENCE = 300
_BETWEEN = "--- the next program\n"
_ALL = f"""
import runpy, sys
from pathlib import Path
for path in sys.argv[1:]:
    sys.path[0] = str(Path(path).parent)
    runpy.run_path(path, run_name="__main__")
    print({_BETWEEN!r}, end="")
"""


def run_with(peer: str, *programs: Path, folder: Path, **variables: str) -> list[str]:
    """What each program prints, in the environment of a peer that `scripts/setup_peers.py` made."""
    assert peer in PEERS
    assert (CACHE / peer / "made_from").exists(), f"{peer} is not installed: run `make suite`"
    done = subprocess.run(
        [python(peer), "-c", _ALL, *(ROOT / program for program in programs)],
        cwd=folder,
        env={**environment(), "PYTHONPATH": "", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split(_BETWEEN)[:-1]
