"""Fault 23: the disk of the journal is full, read-only, or does not keep what it was given.

At every write of a run with side effects the disk fails for real. The run stops before the
next effect, the record is whole when the disk is well again, and the run can be taken up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.journal_fixtures import command, environment
from tests.faults import failing_disks

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 120
LOOP, THREAD = "3600", "0"
"""Who commits: with such a `Timing.stall` always the event loop, or always the journal's thread."""

CASES = {
    # kind          who commits   what its error says
    ("full", LOOP): "the disk is full; make room",
    ("fsync", LOOP): "check the disk, then open the journal again (disk I/O error, SQLITE_IOERR_FSYNC)",
    ("fsync", THREAD): "check the disk, then open the journal again (disk I/O error, SQLITE_IOERR_FSYNC)",
    ("fsync, once", LOOP): "check the disk, then open the journal again (disk I/O error, SQLITE_IOERR_FSYNC)",
    ("write", LOOP): "check the disk, then open the journal again (disk I/O error, SQLITE_IOERR_WRITE)",
}


class Lives:
    """What became of the run, for each write that failed; and of one that nothing disturbed."""

    def __init__(self, kind: str, words: str, told: list[dict[str, Any]]) -> None:
        self.kind = kind
        self.words = words
        self.undisturbed, *self.broken = told
        writes = self.undisturbed["answers"]
        last = max(n for n, each in enumerate(writes) if each["durable"])
        self.noticed = [life for life in self.broken if not kind.startswith("fsync") or life["at"] <= last]
        """A sync that fails is noticed by whoever asks for one; what comes after the last effect does not."""


def can_mount() -> bool:
    probe = "from tests.faults import disks; disks.own_mounts()"
    return subprocess.run([sys.executable, "-c", probe], cwd=ROOT, check=False, capture_output=True).returncode == 0


@pytest.fixture(
    scope="module", params=CASES, ids=[f"{kind} {'loop' if by == LOOP else 'thread'}" for kind, by in CASES]
)
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    kind, by = request.param
    if kind == "full" and not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    folder = tmp_path_factory.mktemp("lives")
    asked = [sys.executable, "-W", "error", "-m", "tests.faults.payments_on_failing_disk", str(folder), kind, by]
    out = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    return Lives(kind, CASES[request.param], [json.loads(line) for line in out.stdout.splitlines()])


def kept(life: dict[str, Any]) -> list[list[str]]:
    return [each["kept"] for each in life["answers"] if "kept" in each]


def test_23_a_run_that_nothing_disturbs_pays_three_times_and_every_write_of_it_was_made_to_fail(lives: Lives) -> None:
    assert (len(lives.undisturbed["effects"]), lives.undisturbed["first"]["text"]) == (3, "All paid.")
    assert [life["at"] for life in lives.broken] == list(range(len(lives.undisturbed["answers"])))
    assert len(lives.noticed) > 10


def test_23_the_run_ends_in_an_error_that_says_what_to_do(lives: Lives) -> None:
    for life in lives.noticed:
        assert life["first"]["error"] in ("JournalError", "OutcomeUnrecorded"), life["first"]
        assert lives.words in life["first"]["words"], life["first"]
        assert "failed before" not in life["first"]["words"], "the first failure tells more than its echo"


def test_23_nothing_is_left_that_asyncio_would_complain_of(lives: Lives) -> None:
    assert {life["first"]["stray"] + life["second"]["stray"] for life in lives.broken} == {""}


def test_23_no_effect_happens_without_an_intent_that_was_synced(lives: Lives) -> None:
    for life in lives.broken:
        synced = [each["kept"] for each in life["answers"] if each.get("durable")]
        assert set(life["effects"]) <= {id for kind, id in synced if kind == "CallIntended"}


def test_23_nothing_is_kept_that_is_written_after_the_first_refusal(lives: Lives) -> None:
    for life in lives.broken:
        assert [each for each in life["answers"] if each.get("late")] == []


def test_23_when_the_disk_is_well_again_the_journal_verifies_and_has_all_that_was_answered_for(lives: Lives) -> None:
    for life in lives.broken:
        assert life["problems"] == []
        assert life["found"][: len(kept(life))] == kept(life)
        assert len(life["found"]) - len(kept(life)) <= 2, "more than the writes that were under way"


def test_23_after_a_failure_the_process_moves_nothing_into_the_file(lives: Lives) -> None:
    if lives.kind == "full":
        return  # nothing is wrong with what was written; it may be moved
    assert [life["at"] for life in lives.noticed if life["moved"]] == []


def test_23_the_run_goes_on_to_its_end_and_nothing_is_paid_twice(lives: Lives) -> None:
    for life in lives.broken:
        assert (life["second"].get("text"), life["problems after"]) == ("All paid.", [])
        assert len(life["effects after"]) == len(set(life["effects after"]))


def test_23_every_call_has_one_answer_and_what_is_in_doubt_was_begun(lives: Lives) -> None:
    for life in lives.broken:
        begun = {id for kind, id in life["found"] if kind == "CallIntended"}
        ended = {id for kind, id in life["found"] if kind == "CallSettled"}
        assert len(life["calls"]) == 4
        for id, (outcome, *entries) in life["calls"].items():
            assert entries.count("CallSettled") == 1
            assert outcome == "ok" or (outcome == "in_doubt" and id in begun - ended)


# ── the same to a person ─────────────────────────────────────────────────────────────────

TOOLS = '''
import os
from pathlib import Path

from handrail import tool
from tests.faults.payments_on_failing_disk import breaking


@tool(side_effects=False)
def look() -> str:
    """Look, and have the disk fail."""
    if kind := os.environ.get("KIND"):
        breaking(kind, Path(".handrail").absolute())()
    return "seen"


@tool(side_effects=True)
def pay(amount: int) -> str:
    """Pay."""
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\\n")
    return "paid"
'''
SCRIPT = """
[[reply]]
calls = [{ name = "look" }]

[[reply]]
calls = [{ name = "pay", arguments = { amount = 5 } }]

[[reply]]
text = "So it stands."
"""
WITH = "-m scripted:script.toml --tools broken_tools.py --yes"
STORY = f"""
handrail() {{ "{sys.executable}" -m handrail "$@"; }}
handrail ask {WITH} 'pay her' 2> asked; echo $? > asked.code
cp paid.txt paid.then 2> /dev/null
rm -f .handrail/filler
KIND= handrail resume run_ {WITH} > resumed 2>&1; echo $? > resumed.code
handrail proof verify > verified 2>&1; echo $? > verified.code
"""


def told(folder: Path, prepare: Callable[[], None] | None, kind: str) -> Callable[[str], str]:
    """Ask, mend the disk, resume, verify: what each of them said."""
    (folder / "broken_tools.py").write_text(TOOLS)
    (folder / "script.toml").write_text(SCRIPT)
    (folder / ".handrail").mkdir()
    subprocess.run(
        ["sh", "-c", STORY],
        cwd=folder,
        env=environment(KIND=kind, PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        preexec_fn=prepare,
        check=True,
        timeout=PATIENCE,
    )

    def read(name: str) -> str:
        return (folder / name).read_text() if (folder / name).exists() else ""

    return read


@pytest.mark.parametrize(
    ("kind", "words", "afterwards"),
    [
        ("full", "the disk is full; make room, then try again", "← pay ok"),
        ("write", "check the disk, then open the journal again", "← pay ok"),
        ("read-only", "check the disk, then open the journal again", "← pay ok"),
        ("fsync", "check the disk, then open the journal again", "← pay in_doubt"),
    ],
)
def test_23_ask_stops_before_the_effect_with_one_line_and_1_and_resume_goes_on(
    tmp_path: Path, kind: str, words: str, afterwards: str
) -> None:
    def small() -> None:
        failing_disks.own_mounts()
        failing_disks.small_disk(tmp_path / ".handrail", 2**20)

    if kind == "full" and not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    read = told(tmp_path, small if kind == "full" else None, kind)

    asked = read("asked")
    assert (read("asked.code"), read("paid.then"), "Traceback" in asked) == ("1\n", "", False)
    assert words in asked.splitlines()[-1]
    assert "Interrupted; resume it with: handrail resume run_" in asked.splitlines()[-2]
    assert (read("resumed.code"), "So it stands." in read("resumed")) == ("0\n", True)
    assert afterwards in read("resumed")
    assert len(read("paid.txt").split()) == (1 if "ok" in afterwards else 0)
    assert read("verified.code") == "0\n", read("verified")


@pytest.mark.parametrize("there", [True, False], ids=["with a journal", "without one"])
def test_23_on_a_read_only_disk_nothing_is_asked_and_one_line_says_why(tmp_path: Path, there: bool) -> None:
    if not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    (tmp_path / "script.toml").write_text(SCRIPT)
    asked = command("ask", "-m", "scripted:script.toml", "hi")
    if there:
        subprocess.run(asked, cwd=tmp_path, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def protect() -> None:
        failing_disks.own_mounts()
        failing_disks.read_only(tmp_path)
        os.chdir(tmp_path)  # the mount is another place than the folder below it

    out = subprocess.run(
        asked, cwd=tmp_path, preexec_fn=protect, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )

    assert (out.returncode, out.stdout, out.stderr.count("\n")) == (1, "", 1), out.stderr
    assert "write permission" in out.stderr


def test_23_a_full_disk_has_no_room_for_a_new_journal_and_one_line_says_so(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    (tmp_path / "script.toml").write_text(SCRIPT)
    (tmp_path / ".handrail").mkdir()

    def full() -> None:
        failing_disks.own_mounts()
        failing_disks.small_disk(tmp_path / ".handrail", 2**16)
        failing_disks.fill(tmp_path / ".handrail")

    out = subprocess.run(
        command("ask", "-m", "scripted:script.toml", "hi"),
        cwd=tmp_path,
        preexec_fn=full,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

    assert (out.returncode, out.stdout, out.stderr.count("\n")) == (1, "", 1), out.stderr
    assert "the disk is full; make room" in out.stderr
