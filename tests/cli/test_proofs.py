"""`handrail proof verify`, `prove`, `export`, `checkpoint`, `erase` and `stats`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.journal.auditing import Receipt
from handrail.journal.keys import Signer, Verifier
from handrail.journal.reader import JournalReader
from tests.cli.journal_fixtures import Journal, lines, run


def key_of(journal: Journal) -> str:
    with JournalReader(journal.path) as reader:
        return reader.verifier_key


def test_a_whole_journal_is_verified_and_the_answer_says_what_that_proves(journal: Journal) -> None:
    result = run("proof", "verify")

    assert result.exit_code == 0
    assert "VERIFIED: 24 entries" in result.stdout
    assert "that the first 24 entries are as the key's owner signed them" in result.stdout
    assert "that the runtime told the truth when it wrote" in result.stdout


def test_without_a_trusted_key_and_a_kept_checkpoint_the_answer_says_what_is_missing(journal: Journal) -> None:
    note = Path("kept.note")
    note.write_text(run("proof", "checkpoint").stdout)

    (bare,) = lines(run("proof", "verify", "--json"))
    (sure,) = lines(run("proof", "verify", "--json", "--against", str(note), "--key", key_of(journal)))

    assert len(bare["not_proven"]) == 4
    assert sure["not_proven"] == ["the runtime told the truth when it wrote", "nothing happened outside the runtime"]
    assert sure["proven"][-1] == "the journal agrees with the checkpoints that were kept elsewhere"


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("UPDATE entry SET leaf = CAST(replace(CAST(leaf AS TEXT), '\"ok\"', '\"no\"') AS BLOB) WHERE seq = 3", 3),
        ("DELETE FROM entry WHERE seq = 5", 5),
        ("UPDATE entry SET data = CAST('7' AS BLOB) WHERE seq = 3", 3),
    ],
    ids=["changed", "dropped", "another body"],
)
def test_a_tampered_entry_is_named_and_the_exit_code_is_1(journal: Journal, statement: str, index: int) -> None:
    journal.change(statement)

    shown, told = run("proof", "verify"), run("proof", "verify", "--json")

    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert shown.stdout.startswith(f"entry {index}: ")
    assert "NOT VERIFIED" in shown.stdout
    (report,) = lines(told)
    assert (report["ok"], report["problems"][0]["index"]) == (False, index)
    assert report["proven"] == []


def test_a_cut_journal_does_not_agree_with_the_checkpoint_that_was_kept(journal: Journal) -> None:
    Path("kept.note").write_text(run("proof", "checkpoint").stdout)
    journal.change("DELETE FROM entry WHERE seq >= 9")
    journal.change("DELETE FROM checkpoint WHERE size > 9")

    assert run("proof", "verify", "--against", "kept.note").exit_code == 1


def test_another_key_than_the_one_that_signed_is_a_problem(journal: Journal) -> None:
    other = Signer.from_seed("somebody/else", bytes(32)).verifier_key

    assert run("proof", "verify", "--key", other).exit_code == 1


def test_a_key_that_is_none_and_a_note_that_is_none_are_refused(journal: Journal) -> None:
    Path("note").write_bytes(b"\xff\xfe")

    assert run("proof", "verify", "--key", "x").exit_code == 1
    assert run("proof", "verify", "--against", "note").exit_code == 1
    assert run("proof", "verify", "--against", "nowhere").exit_code == 2


def test_a_checkpoint_goes_to_stdout_alone(journal: Journal) -> None:
    result = run("proof", "checkpoint")

    assert result.stdout.startswith("handrail/journal\n24\n")
    assert "keep it where" in result.stderr.lower()
    (told,) = lines(run("proof", "checkpoint", "--json"))
    assert (told["note"], told["size"], told["unsigned"]) == (result.stdout, 24, 0)


def test_a_receipt_holds_without_the_journal(journal: Journal) -> None:
    receipt = Receipt.from_json(run("proof", "prove", "call_y").stdout)

    receipt.verify(Verifier.parse(key_of(journal)))
    assert (receipt.call_id, "paid 9 to eve" in str(receipt.body)) == ("call_yes", True)


def test_a_receipt_is_written_to_a_new_file_only(journal: Journal) -> None:
    first = run("proof", "prove", "call_yes", "-o", "receipt.json")
    again = run("proof", "prove", "call_yes", "-o", "receipt.json")

    assert (first.exit_code, again.exit_code) == (0, 1)
    assert json.loads(Path("receipt.json").read_text())["call_id"] == "call_yes"


def test_a_call_that_only_waits_has_no_receipt(journal: Journal) -> None:
    assert run("proof", "prove", "call_pay").exit_code == 1


def test_a_receipt_of_a_tampered_journal_is_refused(journal: Journal) -> None:
    journal.change("DELETE FROM entry WHERE seq = 3")

    result = run("proof", "prove", "call_yes")

    assert (result.exit_code, result.stdout) == (1, "")


def test_an_exported_run_is_verified_by_its_own_script(journal: Journal) -> None:
    result = run("proof", "export", "run_c")

    folder = result.stdout.strip()
    done = subprocess.run(
        [sys.executable, f"{folder}/verify.py", "--key", key_of(journal)], capture_output=True, text=True, check=False
    )
    assert (folder, done.returncode) == ("run_confirmed.proof", 0)
    assert run("proof", "export", "run_c").exit_code == 1


def test_an_export_goes_where_it_is_told(journal: Journal) -> None:
    (told,) = lines(run("proof", "export", "run_sums", "evidence/march", "--json"))

    assert told == {"run": "run_sums", "folder": "evidence/march", "verifier_key": key_of(journal)}
    assert Path("evidence/march/bundle.jsonl").is_file()


def test_erasing_asks_first(journal: Journal) -> None:
    refused = run("proof", "erase", "run_sums", text="n\n")
    silent = run("proof", "erase", "run_sums", text="")
    agreed = run("proof", "erase", "run_sums", text="y\n")

    assert (refused.exit_code, silent.exit_code, agreed.exit_code) == (1, 1, 0)
    assert "proofs stay valid" in agreed.stdout
    assert "--yes" in silent.stderr


def test_what_was_erased_is_gone_and_the_journal_still_holds(journal: Journal) -> None:
    (told,) = lines(run("proof", "erase", "run_sums", "--yes", "--json"))
    (report,) = lines(run("proof", "verify", "--json"))

    assert (told["erased"], report["ok"], report["erased"]) == (8, True, 8)
    assert b"gpj.exe" not in b"".join(str(line).encode() for line in lines(run("proof", "show", "run_sums", "--json")))


def test_one_call_can_be_erased_alone(journal: Journal) -> None:
    run("proof", "erase", "run_sums", "--call", "call_f", "--yes")

    shown = run("proof", "show", "run_sums").stdout
    assert shown.count("[erased]") == 1


def test_everything_before_a_date_can_be_erased(journal: Journal) -> None:
    (none,) = lines(run("proof", "erase", "--before", "2023-11-14", "--utc", "--yes", "--json"))
    (early,) = lines(run("proof", "erase", "--before", "2023-11-14T22:13:22Z", "--yes", "--json"))
    (rest,) = lines(run("proof", "erase", "--before", "2023-11-16", "--utc", "--yes", "--json"))

    assert (none["erased"], early["erased"], rest["erased"]) == (0, 8, 8)


def test_an_unfinished_run_is_pointed_out_before_it_is_erased(journal: Journal) -> None:
    assert "has not ended" in run("proof", "erase", "run_payments", text="n\n").stderr


def test_erasing_nothing_in_particular_is_wrong_usage(journal: Journal) -> None:
    assert run("proof", "erase", "--yes").exit_code == 2
    assert run("proof", "erase", "--before", "yesterday", "--yes").exit_code == 1


@pytest.mark.requirement("hearthnet.telemetry")
def test_stats_tell_per_tool_what_was_offered_picked_and_failed(journal: Journal) -> None:
    told = {each["tool"]: each for each in lines(run("proof", "stats", "--json"))}

    assert (told["add"]["offered"], told["add"]["picked"], told["add"]["failed"]) == (1, 2, {})
    assert told["fail"]["failed"] == {"failed": 1}
    assert told["pay"]["failed"] == {"denied": 1}
    assert "denied 1" in run("proof", "stats").stdout


def test_stats_of_one_run_count_only_that(journal: Journal) -> None:
    assert [each["tool"] for each in lines(run("proof", "stats", "--run", "run_c", "--json"))] == ["pay"]
    assert lines(run("proof", "stats", "--all", "--json")) == lines(run("proof", "stats", "--json"))
