"""A machine that cannot have a jail is told why, and what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.sandbox.jail import unavailable
from handrail.sandbox.jail.probe import ELSE, advice

linux = pytest.mark.skipif(sys.platform != "linux", reason="the os sandbox is for Linux")
ASK = "from handrail.sandbox.jail import unavailable; print(unavailable())"
OPEN = """
from handrail.core.errors import MissingExtra, SandboxUnavailable
from handrail.sandbox.jail import Jail
try:
    Jail()
except (MissingExtra, SandboxUnavailable) as error:
    print(type(error).__name__, error)
"""


def said(program: str, *before: str, path: str = "/usr/bin:/bin") -> str:
    ran = subprocess.run(
        [*before, sys.executable, "-c", program],
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout.strip()


@linux
def test_without_bubblewrap_it_says_how_to_install_it(tmp_path: Path) -> None:
    assert "apt install bubblewrap" in said(ASK, path=str(tmp_path))
    assert said(OPEN, path=str(tmp_path)).startswith("SandboxUnavailable")


@linux
def test_without_pyseccomp_it_names_the_extra() -> None:
    gone = "import sys; sys.modules['pyseccomp'] = None\n"
    assert "[sandbox]" in said(gone + ASK)
    assert said(gone + OPEN).startswith("MissingExtra")


@linux
def test_without_libseccomp_it_says_how_to_install_it() -> None:
    gone = "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
    assert "apt install libseccomp2" in said(gone + ASK)
    assert said(gone + OPEN).startswith("SandboxUnavailable")


@linux
@pytest.mark.parametrize("how", ["sys.executable = sys._base_executable = ''", "sys.frozen = True"])
def test_a_program_that_python_is_only_a_part_of_has_no_jail(how: str) -> None:
    embedded = f"import sys; {how}\n"
    assert "no Python to start again" in said(embedded + ASK)
    assert said(embedded + OPEN).startswith("SandboxUnavailable")


@pytest.mark.skipif(unavailable() is not None or not shutil.which("unshare"), reason="nothing to switch off")
def test_where_user_namespaces_are_switched_off_it_says_how_to_switch_them_on() -> None:
    off = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    words = said(ASK, "unshare", "--user", "--map-root-user", "sh", "-c", off, "sh")
    assert "sysctl -w user.max_user_namespaces=" in words


@linux
def test_a_bubblewrap_that_is_too_old_is_not_used(tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho usage: --unshare-all\n")
    old.chmod(0o755)
    assert "0.8" in said(ASK, path=f"{tmp_path}:/usr/bin:/bin")


@linux
@pytest.mark.parametrize(
    ("text", "words"),
    [("#!/bin/sh\necho no /proc >&2\nexit 1\n", "did not start: no /proc; "), ("\0", "did not start: [Errno 8]")],
)
def test_a_bubblewrap_that_does_not_run_is_no_old_one(tmp_path: Path, text: str, words: str) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text(text)
    broken.chmod(0o755)
    assert words in said(ASK, path=f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", ELSE),
    ],
)
def test_the_advice_follows_the_settings_of_the_kernel(tmp_path: Path, name: str, value: str, words: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(value + "\n")
    assert words in advice(tmp_path)


def test_importing_the_package_needs_neither_bubblewrap_nor_pyseccomp() -> None:
    program = "import sys, handrail.sandbox.jail; print('pyseccomp' in sys.modules)"
    assert said(program) == "False"
