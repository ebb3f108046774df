"""`handrail sync-capabilities`: files on disk, and what a CI job sees."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.tools.snapshots.catalogue import NodeCatalogue
from handrail.tools.snapshots.snapshot_files import check_snapshots, write_snapshots
from tests.approved import approve
from tests.cli.journal_fixtures import lines, run
from tests.mcp.servers.described_server import command, describe, tool
from tests.tools.snapshots.hard_catalogues import TWO

CONFIG = """\
default_model = "fast"

[models.fast]
provider = "openai"
model = "gpt-5"
key = "env:NO_SUCH_KEY"

[models.small]
provider = "local"
tools = ["probability:*"]

[standard]
probability = true
"""
BOX = """\
from handrail import tool

@tool(side_effects=True)
def pay(to: str) -> str:
    return to
"""
ALL = ("capabilities.py", "capabilities.ts", "capabilities.rs")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "handrail.toml").write_text(CONFIG)
    (tmp_path / "box.py").write_text(BOX)
    approve(tmp_path / "handrail.toml")
    return tmp_path


@pytest.mark.requirement("nrv.snapshot")
def test_a_configured_node_is_written_in_three_languages(folder: Path) -> None:
    result = run("sync-capabilities", "--out", "made", "--json")

    assert result.exit_code == 0, result.stderr
    assert lines(result) == [
        {"language": language, "file": f"made/{file}", "state": "written"}
        for language, file in zip(("python", "typescript", "rust"), ALL, strict=True)
    ]
    module: dict[str, Any] = {}
    exec((folder / "made" / "capabilities.py").read_text(), module)
    assert "roll_dice" in module["TOOL_NAMES"]
    assert module["MODEL_IDS"] == ("fast", "small")


@pytest.mark.requirement("nrv.model-tools")
def test_a_model_of_the_configuration_declares_its_tools(folder: Path) -> None:
    (folder / "handrail.toml").write_text(CONFIG.replace('"probability:*"', '"probability:roll_*"'))
    approve(folder / "handrail.toml")
    run("sync-capabilities", "--python", "made.py")
    module: dict[str, Any] = {}
    exec((folder / "made.py").read_text(), module)
    fast, small = module["MODELS"]

    assert (small["id"], small["tools"]) == ("small", ("roll_dice",))
    assert len(fast["tools"]) == len(module["TOOL_NAMES"]) > 5


def test_the_same_node_gives_the_same_bytes_and_touches_nothing(folder: Path) -> None:
    run("sync-capabilities", "--out", "made")
    before = {file: ((folder / "made" / file).read_bytes(), (folder / "made" / file).stat()) for file in ALL}
    again = run("sync-capabilities", "--out", "made", "--json")

    assert [each["state"] for each in lines(again)] == ["same"] * 3
    for file, (content, status) in before.items():
        now = (folder / "made" / file).stat()
        assert (folder / "made" / file).read_bytes() == content
        assert (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


def test_a_check_says_which_file_differs_and_writes_nothing(folder: Path) -> None:
    run("sync-capabilities", "--out", "made")
    (folder / "made" / "capabilities.ts").write_text("// mine\n")
    (folder / "made" / "capabilities.rs").unlink()
    result = run("sync-capabilities", "--out", "made", "--check")
    good = run("sync-capabilities", "--python", "made/capabilities.py", "--check")

    assert (result.exit_code, good.exit_code) == (1, 0)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["python", "same", "made/capabilities.py"],
        ["typescript", "differs", "made/capabilities.ts"],
        ["rust", "missing", "made/capabilities.rs"],
    ]
    assert "made/capabilities.ts, made/capabilities.rs" in result.stderr
    assert (folder / "made" / "capabilities.ts").read_text() == "// mine\n"


def test_tools_by_name_and_files_by_name(folder: Path) -> None:
    result = run("sync-capabilities", "--tools", "box.py", "--rust", "src/names.rs", "--out", "made")

    assert result.exit_code == 0, result.stderr
    assert sorted(os.listdir(folder / "made")) == ["capabilities.py", "capabilities.ts"]
    assert '"pay" => Ok(ToolName::Pay)' in (folder / "src" / "names.rs").read_text()


def test_a_catalogue_from_elsewhere_needs_no_configuration(folder: Path) -> None:
    (folder / "handrail.toml").unlink()
    (folder / "node.json").write_text(json.dumps({"tools": [{"name": "add", "input_schema": {"type": "object"}}]}))
    result = run("sync-capabilities", "--from", "node.json", "--typescript", "names.ts")

    assert result.exit_code == 0, result.stderr
    assert '  | "add";' in (folder / "names.ts").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say where to write"),
        (("--python", "same.x", "--rust", "same.x"), "one file"),
        (("--from", "none.json", "--out", "made"), "none.json cannot be read"),
        (("--from", "bad.json", "--out", "made"), "bad.json: is not JSON"),
        (("--from", "http://127.0.0.1:9/capabilities", "--out", "made"), "cannot be read"),
        (("--from", "http://me:secret@[", "--out", "made"), "the address cannot be read"),
        (("--from", "bad.json", "--tools", "box.py", "--out", "made"), "leave out --tools"),
        (("--tools", "none.py", "--out", "made"), "there is no such file"),
        (("--out", "box.py/made"), "cannot be"),
    ],
)
def test_what_goes_wrong_is_one_line_and_nothing_is_written(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    (folder / "bad.json").write_text("{")
    result = run("sync-capabilities", *arguments)

    assert result.exit_code == 1
    assert said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (folder / "made").exists()


def test_a_node_whose_server_is_not_there_is_not_written_by_half(folder: Path) -> None:
    (folder / "handrail.toml").write_text(f'{CONFIG}\n[mcp.files]\ncommand = "no-such-program-anywhere"\n')
    approve(folder / "handrail.toml")
    result = run("sync-capabilities", "--out", "made")

    assert (result.exit_code, (folder / "made").exists()) == (1, False)
    assert "not all tools are there: MCP server 'files' is not" in result.stderr


def test_a_server_that_is_used_for_the_first_time_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    started = json.dumps(command(describe(folder / "demo.json", tool("look"))))
    (folder / "handrail.toml").write_text(f"{CONFIG}\n[mcp.demo]\ncommand = {started}\n")
    approve(folder / "handrail.toml")
    run("mcp", "approve", "demo", "--yes", "--no-connect")

    result = run("sync-capabilities", "--out", "made")

    assert (result.exit_code, "first time" in result.stderr) == (0, True)
    assert '"look"' in (folder / "made" / "capabilities.ts").read_text()


def test_the_help_shows_how(folder: Path) -> None:
    assert "--check" in run("sync-capabilities", "--help").stdout
    assert "sync-capabilities" in run("--help").stdout


# ── writing ─────────────────────────────────────────────────────────────────────────


def test_a_file_keeps_its_mode_and_a_link_its_place(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)

    write_snapshots(TWO, {"python": link})

    assert link.is_symlink() and real.read_text().startswith('"""The tools')
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "names.py"
    write_snapshots(TWO, {"python": target})
    before = target.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"names\.py cannot be written: No space left"):
        write_snapshots(NodeCatalogue.of([]), {"python": target})

    assert (target.read_bytes(), os.listdir(tmp_path)) == (before, ["names.py"])


def test_a_folder_in_the_way_is_said(tmp_path: Path) -> None:
    for attempt in (write_snapshots, check_snapshots):
        with pytest.raises(UsageError, match="cannot be read"):
            attempt(TWO, {"python": tmp_path})
