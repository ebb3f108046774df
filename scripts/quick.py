"""Ruff, and the tests that a change touches, for less than a minute: `make quick`.

What changed is what differs from where this branch left `main`, with all that is not committed. The nearest tests come
first: changed tests; then those that use a changed helper, and those in the folder of a changed module that reach it
by imports; then those elsewhere that import it. A file that is no module is of the folder that its own folder mirrors,
and of every test that names it. When the time is over it says so; `make test` runs everything.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 50.0
"""For everything; what runs then is told to end."""
NEAR = ("changed tests", "tests beside what changed", "tests that import what changed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Ruff, and the tests that a change touches.")
    parser.add_argument("--list", action="store_true", help="only say which tests those are")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="SECONDS")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    changed = changed_files()
    chosen = tests_of(changed)
    if asked.list:
        for what, files in zip(NEAR, chosen, strict=True):
            print(f"{what}: {' '.join(files)}" if files else f"{what}: none")
        return 0
    for check in (["check"], ["format", "--check", "--quiet"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *check, "."], cwd=ROOT)
        if done.returncode:
            return done.returncode
    if not any(chosen):
        print(f"no test is near the {len(changed)} changed files" if changed else "nothing has changed")
        return 0
    for number, (what, files) in enumerate(zip(NEAR, chosen, strict=True)):
        if files:
            print(f"· {what}: {len(files)} files", flush=True)
            code = run(files, end)
            if code is None:
                rest = [file for later in chosen[number + 1 :] for file in later]
                print(f"the time is over: not all of these have run, and none of {len(rest)} further files")
                return 0
            if code not in (0, 5):  # 5: nothing in them is to be run
                return code
    return 0


def run(files: list[str], end: float) -> int | None:
    """The exit code of pytest; None if it was not done in time and nothing had failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-m", "not slow", "-x"]
    tests = subprocess.Popen([*command, *files], cwd=ROOT, start_new_session=True)
    try:
        return tests.wait(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        tests.send_signal(signal.SIGINT)
        try:
            code = tests.wait(10)
        except subprocess.TimeoutExpired:
            code = 2
        return 1 if code == 1 else None
    finally:
        with suppress(ProcessLookupError):  # also the workers, which may outlive the process that started them
            os.killpg(tests.pid, signal.SIGKILL)
        tests.wait()


def changed_files() -> list[str]:
    """Files that differ from where this branch left main, that are new, and that are gone."""
    base = _git("merge-base", "HEAD", "main") or _git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    return sorted({*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def tests_of(changed: Iterable[str]) -> list[list[str]]:
    """The files of tests near to the changed ones, in three ranks, each file in the first that it belongs to."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    graph = grimp.build_graph("handrail", "tests", cache_dir=None)
    texts = {name: _file(name).read_text() for name in graph.modules if _is_test(name)}
    own, beside, elsewhere = set[str](), set[str](), set[str]()
    for file in changed:
        path = Path(file)
        module = _module(path)
        if module in graph.modules:
            reaching = set(filter(_is_test, graph.find_downstream_modules(module)))
            if module.startswith("tests."):
                own |= {module} & set(texts)
                beside |= reaching
                if path.name == "conftest.py":
                    beside |= {name for name in texts if name.startswith(module.removesuffix("conftest"))}
                continue
            folder = module.replace("handrail", "tests", 1).rpartition(".")[0]
            beside |= {name for name in reaching if name.rpartition(".")[0] == folder}
            elsewhere |= set(filter(_is_test, graph.find_modules_that_directly_import(module)))
        else:
            beside |= {name for name in texts if name.rpartition(".")[0] == _mirror(path)}
            elsewhere |= {name for name, text in texts.items() if path.name in text}
    ranks = (own, beside - own, elsewhere - own - beside)
    return [sorted(str(_file(name).relative_to(ROOT)) for name in rank) for rank in ranks]


def _module(path: Path) -> str:
    """The module that a file is, by its place; a folder's `__init__.py` is the folder."""
    parts = path.with_suffix("").parts if path.suffix == ".py" else ()
    parts = parts[1:] if parts[:1] == ("src",) else parts
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)


def _mirror(path: Path) -> str:
    """The folder of tests for a file that is no module: tests/desk/page for src/handrail/desk/page/chat.js."""
    parts = path.parent.parts
    if parts[:2] == ("src", "handrail"):
        parts = ("tests", *parts[2:])
    elif parts[:1] == ("docs",):
        parts = ("tests", "docs")
    while parts and not (ROOT / Path(*parts) / "__init__.py").is_file():
        parts = parts[:-1]
    return ".".join(parts) if len(parts) > 1 else ""


def _file(name: str) -> Path:
    return ROOT / Path(*name.split(".")).with_suffix(".py")


def _is_test(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


if __name__ == "__main__":
    sys.exit(main())
