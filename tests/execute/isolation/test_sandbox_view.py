"""What a sandboxed tool is shown of the machine, however Python came by its code. No jail is needed to know."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import InvalidDefinition
from handrail.execute.isolation.sandbox_view import sandbox_view_of
from handrail.tools.tool import Tool

NAME = "seen_tools"
CODE = """
from handrail import tool

@tool(isolation="sandbox")
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the package of a tool is."""
    package = tmp_path / "code" / NAME
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CODE)
    yield package
    sys.modules.pop(NAME, None)


def add() -> Tool:
    importlib.invalidate_caches()
    found: Tool = importlib.import_module(NAME).add
    return found


def test_a_package_is_shown_and_not_what_is_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder.parent)
    sight = sandbox_view_of(add())
    assert folder in sight.readable
    assert not any(folder.parent.is_relative_to(each) for each in sight.readable)
    assert str(folder.parent) in sight.path


def test_what_an_editable_install_finds_by_a_hook_is_found_by_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            file = folder / "__init__.py"
            places = [str(folder)]
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=places)

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    sight = sandbox_view_of(add())
    assert folder in sight.readable
    assert str(folder.parent) in sight.path


def test_of_code_in_an_archive_the_archive_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = folder.parent / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(folder / "__init__.py", f"{NAME}/__init__.py")
    monkeypatch.syspath_prepend(archive)
    sight = sandbox_view_of(add())
    assert archive in sight.readable
    assert str(archive) in sight.path


def test_code_that_is_gone_is_not_there_and_nothing_is_shown_in_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder.parent)
    tool = add()
    (folder / "__init__.py").unlink()
    shutil.rmtree(folder)
    with pytest.raises(InvalidDefinition, match="which is not there"):
        sandbox_view_of(tool)


def test_a_user_without_a_name_and_a_home_has_a_sandbox_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert folder in sandbox_view_of(add()).readable


def test_a_working_directory_that_was_removed_is_no_obstacle(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder.parent)
    tool = add()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    sight = sandbox_view_of(tool)
    assert sight.directory is None
    assert "" not in sight.path
