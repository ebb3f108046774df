"""What a tool may name for itself in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import tool
from handrail.core.errors import InvalidDefinition, UsageError
from handrail.execute.isolation.worker_limits import SandboxLimits
from handrail.tools.sandbox_access import SandboxAccess


def test_paths_are_those_of_the_moment_at_which_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    access = SandboxAccess(read=("data/", "a/../b"))
    monkeypatch.chdir("/")
    assert access.paths == (tmp_path / "data", tmp_path / "b")


@pytest.mark.parametrize("path", ["/", "/proc/self/environ", "/dev", "/sys/kernel", "/tmp"])
def test_what_no_sandbox_may_see_cannot_be_named(path: str) -> None:
    with pytest.raises(InvalidDefinition, match="no sandbox may be shown"):
        SandboxAccess(read=(path,))


@pytest.mark.parametrize("there", ["/proc", "/", "/dev/null"])
def test_nor_by_a_link_to_it(tmp_path: Path, there: str) -> None:
    (tmp_path / "link").symlink_to(there)
    with pytest.raises(InvalidDefinition, match="no sandbox may be shown"):
        SandboxAccess(read=(tmp_path / "link",))


@pytest.mark.parametrize("limit", ["memory_bytes", "cpu_seconds", "disk_bytes"])
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    nothing: dict[str, Any] = {limit: 0}
    with pytest.raises(InvalidDefinition, match=limit):
        SandboxAccess(**nothing)
    with pytest.raises(UsageError, match=limit):
        SandboxLimits(**nothing)


def test_one_path_is_still_a_tuple() -> None:
    with pytest.raises(InvalidDefinition, match=r"write read=\('data',\)"):
        SandboxAccess(read="data")  # type: ignore[arg-type]  # that is the mistake


def test_access_without_a_sandbox_is_a_mistake() -> None:
    with pytest.raises(InvalidDefinition, match="isolation='sandbox'"):

        @tool(sandbox=SandboxAccess())
        def open_air() -> None:
            raise NotImplementedError
