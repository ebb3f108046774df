"""What people install: the wheel builds, and holds what it promises and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_has_the_package_its_types_and_its_licence_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()

    assert "handrail/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names} == {"handrail", "handrail-0.1.0.dist-info"}


def test_every_module_of_the_source_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}

    assert source == {name for name in wheel.namelist() if name.endswith(".py")}


def test_the_page_and_the_style_of_the_terminal_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    beside = {".html", ".js", ".css", ".tcss", ".svg"}
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.suffix in beside}

    assert source and source <= set(wheel.namelist())


def test_the_wheel_names_its_extras_its_python_and_its_command(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(wheel.read("handrail-0.1.0.dist-info/METADATA").decode())

    extras = [
        "acp",
        "all",
        "bedrock",
        "bus",
        "cli",
        "img",
        "local",
        "mcp",
        "nats",
        "otel",
        "postgres",
        "probability",
        "rag",
        "rlm",
    ]
    extras += ["sandbox", "semantic", "server", "stt", "tui", "web"]
    assert sorted(metadata.get_all("Provides-Extra") or ()) == extras
    assert metadata["Requires-Python"] == ">=3.11"
    assert b"handrail = handrail.cli:main" in wheel.read("handrail-0.1.0.dist-info/entry_points.txt")
