"""Run what differs between Pythons on each Python from 3.11 on that this machine has, except that of `.venv`.

It looks on the PATH, among pyenv's versions and in the usual folders. Each Python gets a small environment of its own
under `.cache/pythons/`, with the runtime's dependencies and pytest, and compiles and imports the whole package with
warnings as errors before it runs the tests below. `make test` does this beside its tests; it takes about a
minute for each Python, and the first time as long as pip takes besides.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

from handrail.core.watched_command import CommandSilent, ProgressLine, run_pip

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "pythons"
OLDEST = (3, 11)
EXTRAS = ("bus", "cli", "mcp", "server")
"""What the tests below need of the optional dependencies."""
TOOLS = ("hypothesis", "inline-snapshot", "packaging", "pip", "pytest", "pytest-asyncio", "pytest-timeout")
TESTS = (
    "tests/pythons",
    "tests/core",
    "tests/node/services/test_database.py",
    "tests/node/server/test_socket_admission.py::test_a_node_that_ends_tells_every_socket_how_its_call_ended",
    "tests/mcp/server/test_client_questions.py::test_a_question_beside_one_that_is_refused_is_taken_back",
)
SECONDS = 600
"""For each step on one Python, on a machine that is busy; usually the tests take a minute."""

_TELL = "import sys; print(*sys.version_info[:3], int(sys.version_info.releaselevel == 'final'), sep='.')"
_IMPORT_ALL = """
import importlib, pkgutil, handrail
for each in pkgutil.walk_packages(handrail.__path__, "handrail."):
    if each.name.rpartition(".")[2] != "__main__":
        try:
            importlib.import_module(each.name)
        except ModuleNotFoundError as missing:  # an extra that is not installed here
            if missing.name.partition(".")[0] == "handrail":
                raise
        except Exception as error:
            if type(error).__name__ != "MissingExtra":
                raise
"""


def main() -> int:
    own = ".".join(map(str, sys.version_info[:3]))
    others = {version: python for version, python in interpreters().items() if version != own}
    if not others:
        print(f"· skipped: this machine has no Python from 3.11 on but {own}, which runs the whole suite")
        return 0
    failed = [version for version, python in sorted(others.items()) if not holds(version, python)]
    if failed:
        print(f"not everything holds on Python {', '.join(failed)}; see above", file=sys.stderr)
    return 1 if failed else 0


def interpreters() -> dict[str, Path]:
    """One interpreter for each version, 3.11.2 for example, that is new enough."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders = [
        *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep)),
        Path("/usr/bin"),
        Path("/usr/local/bin"),
    ]
    folders += sorted(pyenv.glob("*/bin"))
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3*")):
            if path.name.removeprefix("python3").removeprefix(".").isdigit() or path.name == "python3":
                version = version_of(path)
                if version is not None and ROOT not in path.parents:
                    found.setdefault(version, path)
    return found


def version_of(path: Path) -> str | None:
    """The version of an interpreter, if it is a final one, works, and is new enough."""
    try:
        done = subprocess.run([path, "-I", "-c", _TELL], capture_output=True, text=True, timeout=30)
        major, minor, micro, final = map(int, done.stdout.strip().split("."))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return f"{major}.{minor}.{micro}" if final and (major, minor) >= OLDEST else None


def holds(version: str, path: Path) -> bool:
    """Whether everything holds on that Python, or it cannot be tried for a reason that is its own."""
    try:
        python = environment(version, path)
    except Unusable as why:
        supported = version.rpartition(".")[0] in supported_versions() and why.ours
        print(f"· {'failed' if supported else 'skipped'}: Python {version} ({path}): {why}", flush=True)
        return not supported
    print(f"· Python {version} ({path})", flush=True)
    settings = {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(python.parents[1] / "pycache")}
    steps = (
        ["-W", "error", "-m", "compileall", "-q", "src", "packages"],
        ["-W", "error", "-c", _IMPORT_ALL],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
    )
    try:
        return all(
            subprocess.run([python, *step], cwd=ROOT, env=os.environ | settings, timeout=SECONDS).returncode == 0
            for step in steps
        )
    except subprocess.TimeoutExpired:
        print(f"Python {version} was not done after {SECONDS} s", file=sys.stderr)
        return False


class Unusable(Exception):
    """Why there is no environment for a Python."""

    def __init__(self, why: str, *, ours: bool) -> None:
        super().__init__(why)
        self.ours = ours
        """Whether it is for us to mend: a pin that this Python cannot have, for example."""


def environment(version: str, path: Path) -> Path:
    """The interpreter of the environment for a Python, made unless it is there.

    Raises:
        Unusable: It cannot be made.
    """
    folder, wanted = CACHE / version, requirements()
    python, note = folder / "bin" / "python", folder / "made_from"
    mark = sha256("\n".join([*wanted, (ROOT / "constraints.txt").read_text()]).encode()).hexdigest()
    if note.is_file() and note.read_text() == mark:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    # Our own pip installs into it: an interpreter without ensurepip, as Debian's, will do.
    made = subprocess.run([path, "-I", "-m", "venv", "--without-pip", folder], capture_output=True, text=True)
    if made.returncode:
        raise Unusable(f"it cannot make an environment: {made.stderr.strip()[-200:]}", ours=False)
    print(f"· fetching what Python {version} needs for its tests", flush=True)
    install = ["--python", str(python), "install", "--verbose", "-c", str(ROOT / "constraints.txt"), *wanted]
    with ProgressLine() as progress:
        try:
            done = run_pip(install, f"what Python {version} needs for its tests", show=progress.show)
        except CommandSilent as error:
            raise Unusable(str(error), ours=True) from None
    if done.code:
        raise Unusable(f"its dependencies cannot be installed: {done.reason}", ours=True)
    note.write_text(mark)
    return python


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for name in EXTRAS for each in project["optional-dependencies"][name]]
    return [*project["dependencies"], *(each for each in extras if not each.startswith("handrail[")), *TOOLS]


def supported_versions() -> list[str]:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [each.rpartition(" ")[2] for each in classifiers if each.startswith("Programming Language :: Python :: 3.")]


if __name__ == "__main__":
    sys.exit(main())
