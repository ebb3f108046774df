"""The line that adds an extra works for the way in which this copy was installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail.core.errors import MissingExtra
from handrail.core.installation import install_command

CHECKOUT = Path(handrail.__file__).parents[2]
PYTHON = sys.executable


@pytest.fixture(autouse=True)
def activated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment is activated: the shell finds the pip beside this Python."""
    return environment(tmp_path / "activated" / "bin", monkeypatch, "pip")


def environment(folder: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> Path:
    """Pretend that this Python is in a folder with these programs, and that the shell looks there and nowhere else."""
    folder.mkdir(parents=True)
    for name in (*programs, "python"):
        (folder / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(folder))
    return folder / "python"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that pip installed handrail from somewhere: metadata on a path before all others."""

    def install(direct_url: Any) -> None:
        info = tmp_path / "site" / "handrail-9.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handrail\nVersion: 9\n")
        if direct_url is not None:
            (info / "direct_url.json").write_text(
                direct_url if isinstance(direct_url, str) else json.dumps(direct_url), encoding="utf-8"
            )
        monkeypatch.syspath_prepend(tmp_path / "site")

    return install


def checkout(folder: Path) -> Path:
    (folder / "packages" / "handrail-local").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    return folder


def test_a_copy_from_an_index_is_extended_from_the_index(installed: Any) -> None:
    installed(None)

    assert install_command("local") == "pip install 'handrail[local]'"
    assert install_command("cli", "local") == "pip install 'handrail[cli,local]'"


def test_the_pip_of_another_python_is_not_told_to_install(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(None)
    python = environment(tmp_path / "not activated" / "bin", monkeypatch)
    environment(tmp_path / "system", monkeypatch, "pip")
    monkeypatch.setattr(sys, "executable", str(python))

    assert install_command("local") == f"{shlex.quote(str(python))} -m pip install 'handrail[local]'"
    assert install_command("local", shows_folder=False) == "pip install 'handrail[local]'"


def test_an_environment_without_pip_is_extended_by_uv(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(None)
    python = environment(tmp_path / "of-uv", monkeypatch, "uv")
    monkeypatch.setitem(sys.modules, "pip", None)  # as if it could not be found

    assert install_command("local") == f"uv pip install --python {python} 'handrail[local]'"


def test_a_copy_from_a_checkout_is_extended_in_the_checkout_s_folder(installed: Any, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "my sources, ä")
    installed({"url": folder.as_uri(), "dir_info": {}})

    there = f"cd {shlex.quote(str(folder))} && "
    assert install_command("local") == there + "pip install './packages/handrail-local' '.[local]'"
    assert install_command("all") == there + "pip install './packages/handrail-local' '.[all]'"
    assert install_command("nats") == there + "pip install '.[nats]'"
    assert shlex.split(install_command("nats"))[:2] == ["cd", str(folder)]


def test_an_editable_copy_stays_editable(installed: Any, tmp_path: Path) -> None:
    installed({"url": checkout(tmp_path).as_uri(), "dir_info": {"editable": True}})

    assert install_command("local").endswith("&& pip install -e './packages/handrail-local' -e '.[local]'")


def test_what_is_said_to_another_machine_does_not_say_where_the_checkout_lies(installed: Any, tmp_path: Path) -> None:
    installed({"url": checkout(tmp_path / "sources").as_uri(), "dir_info": {"editable": True}})
    error = MissingExtra("the local model", "local")

    assert str(tmp_path) in str(error)
    assert error.for_others.endswith("there: pip install -e './packages/handrail-local' -e '.[local]'")


def test_a_checkout_that_is_gone_is_not_named(installed: Any, tmp_path: Path) -> None:
    installed({"url": (tmp_path / "gone").as_uri(), "dir_info": {}})

    assert install_command("local") == "pip install 'handrail[local]'"


def test_a_copy_from_a_repository_is_extended_from_the_same_commit(installed: Any) -> None:
    installed({"url": "https://git.example/handrail.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}})

    source = "git+https://git.example/handrail.git@abc123"
    assert install_command("nats") == f"pip install 'handrail[nats] @ {source}'"
    assert install_command("local") == (
        f"pip install 'handrail-local @ {source}#subdirectory=packages/handrail-local' 'handrail[local] @ {source}'"
    )


def test_a_copy_from_a_wheel_is_extended_with_what_lies_beside_the_wheel(installed: Any, tmp_path: Path) -> None:
    wheel = tmp_path / "dist" / "handrail-9-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})

    assert install_command("local") == f"pip install --find-links {wheel.parent} 'handrail[local]'"


@pytest.mark.parametrize(
    "noted",
    ["", "{", "[]", "null", {}, {"url": 7, "dir_info": {}}, {"url": "https://example/x.whl", "archive_info": {}}],
)
def test_a_note_of_pip_that_cannot_be_used_leaves_the_index(installed: Any, noted: Any) -> None:
    installed(noted)

    assert install_command("local") == "pip install 'handrail[local]'"


def test_sources_that_pip_never_installed_are_extended_in_their_folder() -> None:
    code = "from handrail.core.installation import install_command; print(install_command('local'))"
    program = [PYTHON, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(CHECKOUT / 'src')!r}); {code}"]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert said.startswith(f"cd {shlex.quote(str(CHECKOUT))} && ")
    assert said.endswith("pip install './packages/handrail-local' '.[local]'\n")


def test_pip_takes_the_line_of_this_very_copy() -> None:
    """Only its parts are read: nothing is built, fetched or installed."""
    _, folder, _, *pip = shlex.split(install_command("local"))
    assert pip[:2] == ["pip", "install"]
    program = "\n".join(
        (
            "import sys",
            "from pip._internal.req.constructors import install_req_from_line",
            "for each in sys.argv[1:]:",
            "    read = install_req_from_line(each)",
            "    print(read.link.file_path, sorted(read.extras))",
        )
    )
    got = subprocess.run(
        [PYTHON, "-c", program, *(part for part in pip[2:] if part != "-e")],
        cwd=folder,
        capture_output=True,
        text=True,
    )

    assert got.stdout.splitlines() == [f"{CHECKOUT}/packages/handrail-local []", f"{CHECKOUT} ['local']"], got.stderr
