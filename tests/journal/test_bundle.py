"""Bundles: what they hold, and that whoever changes one is found out by the stand-alone verifier."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.canonical import canonical_json
from handrail.core.errors import OUTCOMES, BrokenProof, UsageError
from handrail.journal.bundle import BundleEntry, write_bundle
from handrail.journal.keys import Signer, Verifier
from handrail.journal.merkle import leaf_hash, root
from handrail.journal.note import Checkpoint, sign
from handrail.journal.verifier import (
    INLINE,
    STATUSES,
    BundleProblem,
    InvalidBundle,
    check,
    main,
    parse_key,
    run_extension,
)
from handrail.node.tokens.identity import public_key, to_base64
from tests.examples import examples
from tests.journal.whole_trees import inclusion_proofs

SIGNER = Signer.from_seed("example.org/journal", bytes(range(32)))
OTHER = Signer.from_seed("example.org/journal", bytes(32))
RUN = "run_1"
AT = 1_760_000_000_123


class Journal:
    """Entries as the journal writes them, small enough for a test."""

    def __init__(self) -> None:
        self.leaves: list[bytes] = []
        self.bodies: list[tuple[bytes, bytes] | None] = []
        self.runs: list[str] = []

    def add(self, type: str, body: Any = None, *, run: str = RUN, **fields: Any) -> None:
        seq, prev = len(self.leaves), leaf_hash(self.leaves[-1]).hex() if self.leaves else "0" * 64
        place = {"v": 1, "seq": seq, "n": self.runs.count(run), "prev": prev}
        leaf = {**place, "type": type, "run": run, "at": AT + seq, **fields}
        stored = None
        if body is not None:
            salt, data = hashlib.sha256(b"%d" % seq).digest()[:16], canonical_json(body)
            leaf["body"] = {"digest": hashlib.sha256(salt + data).hexdigest(), "size": len(data)}
            stored = salt, data
        self.leaves.append(canonical_json(leaf))
        self.bodies.append(stored)
        self.runs.append(run)

    def call(self, number: int, outcome: str = "ok", result: Any = "done", **options: Any) -> None:
        name = {"call_id": f"call_{number}", "tool": "add", **options}
        self.add("call.intended", {"a": number}, side_effects=False, idempotent=False, key=f"k{number}", **name)
        self.add("call.settled", result, outcome=outcome, duration_us=1500, ran=True, **name)

    def entries(self, run: str = RUN, erase: tuple[int, ...] = ()) -> list[BundleEntry]:
        indexes = [index for index, name in enumerate(self.runs) if name == run]
        hashes = [leaf_hash(leaf) for leaf in self.leaves]
        found: list[BundleEntry] = []
        for index, proof in zip(indexes, inclusion_proofs(hashes, indexes, len(hashes)), strict=True):
            body = self.bodies[index] if len(found) not in erase else None
            salt, data = body or (None, None)
            found.append(BundleEntry(index, self.leaves[index], tuple(proof), salt, data))
        return found

    def export(self, folder: Path, run: str = RUN, erase: tuple[int, ...] = (), signer: Signer = SIGNER) -> Path:
        entries = self.entries(run, erase)
        top = root(leaf_hash(leaf) for leaf in self.leaves)
        checkpoint = Checkpoint(signer.name, len(self.leaves), top, (run_extension(run, len(entries)),))
        note = sign(checkpoint, signer)
        return write_bundle(folder, run=run, entries=entries, checkpoint_note=note, verifier_key=signer.verifier_key)


def example() -> Journal:
    """Two runs side by side; the first has every kind of entry, and a body that becomes an attachment."""
    journal = Journal()
    journal.add("run.started", tools="sha256:00", principal="local")
    journal.add("run.started", run="run_2", tools="sha256:00", principal="local")
    journal.add("tools.offered", tools=["add", "wipe"])
    journal.call(1, result={"tool_call_id": "call_1", "name": "add", "content": "käse\u2028🧀"})
    journal.call(9, run="run_2")
    failure = {"tool_call_id": "call_2", "name": "add", "error": {"code": "TIMEOUT", "message": "too slow"}}
    journal.call(2, "timeout", failure)
    journal.add("confirmation.requested", {"path": "/"}, request="q1", call_id="call_3", tool="wipe", binds="sha256:11")
    journal.add(
        "confirmation.answered", request="q1", call_id="call_3", binds="sha256:11", decision="deny", by="ada", reason=""
    )
    journal.add("call.settled", {"x": 1}, call_id="call_3", tool="wipe", outcome="denied", duration_us=10, ran=False)
    journal.call(4, result="x" * (INLINE + 1))
    journal.add("call.amended", "late", call_id="call_2", tool="add", outcome="ok", why="late")
    journal.add("run.finished", reason="answer")
    return journal


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example().export(tmp_path_factory.mktemp("proof") / "bundle")


@pytest.fixture(scope="module")
def scratch(original: Path) -> Path:
    return Path(shutil.copytree(original, original.parent / "scratch"))


@pytest.fixture
def bundle(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "bundle"))


def problems(folder: Path) -> list[BundleProblem]:
    return list(check(folder, SIGNER.verifier_key).problems)


def places(folder: Path) -> set[int | str]:
    return {problem.where for problem in problems(folder)}


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "bundle.jsonl").read_bytes().split(b"\n")[:-1]]


def entry_lines(folder: Path) -> list[bytes]:
    return (folder / "bundle.jsonl").read_bytes().splitlines(keepends=True)[1:]


def replace_lines(folder: Path, lines: list[bytes]) -> None:
    path = folder / "bundle.jsonl"
    first = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(b"".join([first, *lines]))


def numbered(folder: Path) -> list[tuple[int, str]]:
    return [(problem.where, problem.what) for problem in problems(folder) if isinstance(problem.where, int)]


@pytest.mark.requirement("nrv.proof")
def test_a_bundle_verifies(original: Path) -> None:
    report = check(original, SIGNER.verifier_key)
    assert report.problems == ()
    assert (report.run, report.origin, report.entries, report.size) == (RUN, SIGNER.name, 13, 16)


def test_a_bundle_of_one_run_holds_nothing_of_another(original: Path) -> None:
    assert b"run_2" not in (original / "bundle.jsonl").read_bytes()


@pytest.mark.requirement("nrv.proof")
def test_a_settled_call_is_recorded_as_nrv_asks(original: Path) -> None:
    record = next(item for item in records(original) if item.get("event", {}).get("status") == "timeout")
    arguments = hashlib.sha256(b'{"a":2}').hexdigest()
    assert {name: record[name] for name in ("ts", "actor", "phase", "level", "ids", "event", "result", "metrics")} == {
        "ts": "2025-10-09T08:53:20.131Z",
        "actor": "handrail",
        "phase": "error",
        "level": "error",
        "ids": {"job_id": "run_1", "req_id": "call_2"},
        "event": {
            "tool_name": "add",
            "input_hash": f"sha256:{arguments}",
            "started_at": "2025-10-09T08:53:20.130Z",
            "finished_at": "2025-10-09T08:53:20.131Z",
            "status": "timeout",
        },
        "result": {"ok": False, "error": {"code": "TIMEOUT", "message": "too slow"}},
        "metrics": {"duration_ms": 1.5},
    }


def test_every_record_has_the_fields_and_the_words_of_nrv(original: Path) -> None:
    first, *rest = records(original)
    assert first["bundle_version"] == "1"
    assert first["verifier_key"] == SIGNER.verifier_key
    assert (first["run"], first["count"], first["origin"]) == (RUN, len(rest), SIGNER.name)
    for record in (first, *rest):
        assert record["phase"] in {"admission", "pack", "enqueue", "stream", "apply", "finalize", "error"}
        assert record["level"] in {"info", "warn", "error"}
        assert record["ids"]["job_id"] == RUN


def test_every_outcome_has_a_status() -> None:
    assert set(STATUSES) == set(OUTCOMES)
    assert set(STATUSES.values()) == {"ok", "error", "timeout", "rejected"}


def test_a_long_body_is_a_file_of_its_own(original: Path) -> None:
    (file,) = (original / "attachments").iterdir()
    assert file.name == "010_call_settled.json"
    assert file.stat().st_size == INLINE + 3
    assert [item["attachment"] for item in records(original) if "attachment" in item] == [f"attachments/{file.name}"]


@given(st.lists(st.tuples(st.text(max_size=20), st.sampled_from(OUTCOMES), st.booleans()), min_size=1, max_size=6))
@settings(max_examples=examples(20), deadline=None)
def test_any_run_exports_and_verifies(calls: list[tuple[str, str, bool]]) -> None:
    journal, run = Journal(), "büro/run 7:%"
    for number, (text, outcome, elsewhere) in enumerate(calls):
        error = {"code": text, "message": text}
        journal.call(number, outcome, {"error": error}, run=RUN if elsewhere else run)
    journal.add("run.finished", run=run, reason="answer")
    with tempfile.TemporaryDirectory() as folder:
        assert not problems(journal.export(Path(folder, "bundle"), run))


@pytest.mark.requirement("nrv.proof")
def test_an_erased_body_leaves_the_rest_provable(tmp_path: Path) -> None:
    folder = example().export(tmp_path / "bundle", erase=(2, 3))
    report = check(folder, SIGNER.verifier_key)
    assert (report.problems, report.erased) == ((), 2)
    assert "käse" not in (folder / "bundle.jsonl").read_text()
    settled = records(folder)[4]
    assert settled["erased"] is True
    assert settled["event"]["input_hash"] is None


@pytest.mark.requirement("nrv.proof")
def test_a_dropped_line_is_found_with_its_index(bundle: Path) -> None:
    lines = entry_lines(bundle)
    for index in range(len(lines)):
        replace_lines(bundle, lines[:index] + lines[index + 1 :])
        assert numbered(bundle) == [(index, "is missing")]


@pytest.mark.requirement("nrv.proof")
def test_swapped_lines_are_found_with_their_index(bundle: Path) -> None:
    lines = entry_lines(bundle)
    for index in range(len(lines) - 1):
        replace_lines(bundle, [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]])
        found = numbered(bundle)
        assert found == [(index, "is missing"), (index, f"is out of order: it stands after entry {index + 1}")]


@pytest.mark.requirement("nrv.proof")
def test_a_cut_tail_is_found_with_its_index(bundle: Path) -> None:
    lines = entry_lines(bundle)
    for kept in range(len(lines) - 1):
        replace_lines(bundle, lines[:kept])
        assert numbered(bundle)[0][0] == kept
    replace_lines(bundle, [*lines[:-1], lines[-1][:-9]])
    assert numbered(bundle)[0][0] == len(lines) - 1


def test_a_repeated_line_is_found_with_its_index(bundle: Path) -> None:
    lines = entry_lines(bundle)
    replace_lines(bundle, [*lines[:5], lines[3], *lines[5:]])
    assert numbered(bundle) == [(3, "is out of order: it stands after entry 4")]


@pytest.mark.requirement("nrv.proof")
def test_a_changed_leaf_is_found_with_its_index_and_nothing_else_is_blamed(bundle: Path) -> None:
    lines = entry_lines(bundle)
    for index, line in enumerate(lines):
        record = json.loads(line)
        record["leaf"] = record["leaf"].replace('"run_1"', '"run_2"')
        replace_lines(bundle, [*lines[:index], json.dumps(record).encode() + b"\n", *lines[index + 1 :]])
        assert {where for where, _ in numbered(bundle)} == {index}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_field_of_any_record_can_be_changed_added_or_removed(
    scratch: Path, original: Path, data: st.DataObject
) -> None:
    lines = entry_lines(original)
    index = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[index])
    name = data.draw(
        st.sampled_from(sorted(record)) | st.text(max_size=5) | st.sampled_from(["body", "erased", "salt"])
    )
    before, value = record.pop(name, None), data.draw(JSON)
    if data.draw(st.booleans()) or before is None:
        record[name] = value
    replace_lines(scratch, [*lines[:index], json.dumps(record).encode() + b"\n", *lines[index + 1 :]])
    same = name in record and json.dumps(before) == json.dumps(value)
    assert same or index in places(scratch)


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
@pytest.mark.requirement("nrv.proof")
def test_a_flipped_bit_anywhere_is_found_or_means_the_same(scratch: Path, original: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["bundle.jsonl", "checkpoint", "attachments/010_call_settled.json"]))
    content = bytearray((original / name).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        (scratch / name).write_bytes(content)
        if not problems(scratch):
            assert name == "bundle.jsonl"
            assert records(scratch) == records(original)
    finally:
        shutil.copy(original / name, scratch / name)


@given(st.sampled_from(["bundle.jsonl", "checkpoint"]), st.binary(max_size=200), st.integers(0, 400), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_garbage_gives_problems_and_never_a_traceback(
    scratch: Path, original: Path, name: str, noise: bytes, at: int, insert: bool
) -> None:
    content = (original / name).read_bytes()
    garbage = content[:at] + noise + content[at if insert else at + len(noise) :]
    try:
        (scratch / name).write_bytes(garbage)
        assert problems(scratch) or garbage == content or records(scratch) == records(original)
        (scratch / name).write_bytes(noise)
        assert check(scratch).problems
    finally:
        shutil.copy(original / name, scratch / name)


def test_deep_and_odd_json_gives_a_problem(bundle: Path) -> None:
    lines = entry_lines(bundle)
    for odd in (b"[" * 100_000, b'{"a":' * 100_000, b"NaN", b'{"leaf":"{}"}', b'{"leaf":"\\ud800"}', b"", b"1" * 5000):
        replace_lines(bundle, [*lines[:3], odd + b"\n", *lines[4:]])
        assert numbered(bundle)[0][0] == 3


def test_a_key_that_stands_twice_is_found(bundle: Path) -> None:
    lines = entry_lines(bundle)
    replace_lines(bundle, [b'{"actor":"mallory",' + lines[0][1:], *lines[1:]])
    assert numbered(bundle)[0][0] == 0


def test_a_changed_first_line_is_found(bundle: Path) -> None:
    path = bundle / "bundle.jsonl"
    content = path.read_bytes()
    for old, new in ((b'"count":13', b'"count":12'), (b'"run":"run_1"', b'"run":"run_3"'), (b'"phase"', b'"phrase"')):
        path.write_bytes(content.replace(old, new, 1))
        assert "first line" in places(bundle)
    path.write_bytes(b"")
    assert "first line" in places(bundle)


def test_a_body_that_was_taken_out_is_found(bundle: Path) -> None:
    lines = entry_lines(bundle)
    record = json.loads(lines[4])
    del record["salt"], record["body"]
    replace_lines(bundle, [*lines[:4], json.dumps(record).encode() + b"\n", *lines[5:]])
    assert numbered(bundle) == [(4, "has no body, and is not marked as erased")]


def test_a_body_passed_off_as_erased_is_counted(bundle: Path) -> None:
    lines = entry_lines(bundle)
    record = {**json.loads(lines[3]), "erased": True}
    del record["salt"], record["body"]
    replace_lines(bundle, [*lines[:3], json.dumps(record).encode() + b"\n", *lines[4:]])
    report = check(bundle, SIGNER.verifier_key)
    assert (report.problems, report.erased) == ((), 1)


@pytest.mark.parametrize("how", ["changed", "cut", "gone", "link", "folder", "added"])
def test_a_changed_attachment_is_found(bundle: Path, how: str) -> None:
    path = bundle / "attachments" / "010_call_settled.json"
    content = path.read_bytes()
    if how != "added":
        path.unlink()
    match how:
        case "changed":
            path.write_bytes(content.replace(b"x", b"y", 1))
        case "cut":
            path.write_bytes(content[:-1])
        case "link":
            (bundle / "elsewhere").write_bytes(content)
            path.symlink_to(bundle / "elsewhere")
        case "folder":
            path.mkdir()
        case "added":
            path.with_name("999_notes.txt").write_text("not proven")
    assert places(bundle) == ({"attachments"} if how == "added" else {10})


def test_a_bundle_signed_by_another_key_is_found(tmp_path: Path) -> None:
    folder = example().export(tmp_path / "bundle", signer=OTHER)
    assert not check(folder).problems
    assert not check(folder, OTHER.verifier_key).problems
    assert "checkpoint" in places(folder)


def test_a_checkpoint_with_another_count_does_not_verify(bundle: Path) -> None:
    note = bundle / "checkpoint"
    note.write_text(note.read_text().replace("handrail-run run_1 13", "handrail-run run_1 12"))
    assert {"checkpoint", 12} <= places(bundle)


def test_an_existing_folder_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with pytest.raises(UsageError, match="there already"):
        example().export(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == [tmp_path / "bundle"]


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    bad_leaf, bad_time, bad_body = example(), example(), example()
    bad_leaf.leaves[3] = b"garbage"
    bad_time.leaves[3] = bad_time.leaves[3].replace(b'"at":17', b'"at":-17')
    bad_body.bodies[3] = bytes(16), b"\xff"
    for journal in (bad_leaf, bad_time, bad_body):
        with pytest.raises(BrokenProof) as caught:
            journal.export(tmp_path / "bundle")
        assert caught.value.index == 3
        assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_does_not_fix_the_run_is_refused(tmp_path: Path) -> None:
    journal = example()
    note = sign(Checkpoint(SIGNER.name, 16, bytes(32), (run_extension(RUN, 12),)), SIGNER)
    with pytest.raises(UsageError, match="handrail-run run_1 13"):
        write_bundle(
            tmp_path / "bundle",
            run=RUN,
            entries=journal.entries(),
            checkpoint_note=note,
            verifier_key=SIGNER.verifier_key,
        )
    with pytest.raises(UsageError, match="no entries"):
        journal.export(tmp_path / "bundle", "run_none")


def run_verifier(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As somebody would who has Python and nothing of ours: isolated, without site-packages."""
    command = [sys.executable, "-I", "-S", str(folder / "verify.py"), *arguments]
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, check=False)


@pytest.mark.requirement("nrv.proof")
def test_the_script_in_the_bundle_verifies_it_without_handrail(bundle: Path) -> None:
    answer = run_verifier(bundle, "--key", SIGNER.verifier_key)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("VERIFIED: 13 entries of run 'run_1'")
    assert "Not proven: that the runtime told the truth" in answer.stdout
    assert "WARNING" not in answer.stdout


def test_the_script_warns_when_the_key_came_with_the_bundle(bundle: Path) -> None:
    answer = run_verifier(bundle, str(bundle))
    assert answer.returncode == 0
    assert "WARNING: this key came with the bundle" in answer.stdout


@pytest.mark.requirement("nrv.proof")
def test_the_script_names_each_problem_and_answers_1(bundle: Path) -> None:
    lines = entry_lines(bundle)
    replace_lines(bundle, [*lines[:7], *lines[8:]])
    answer = run_verifier(bundle, str(bundle), "--key", SIGNER.verifier_key)
    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout.splitlines() == [
        "entry 7: is missing",
        "NOT VERIFIED: 1 problem(s) in 12 entries of run 'run_1', 0 with an erased body",
    ]


def test_the_script_answers_in_json(bundle: Path) -> None:
    replace_lines(bundle, entry_lines(bundle)[1:])
    answer = run_verifier(bundle, "--json", "--key", SIGNER.verifier_key)
    told = json.loads(answer.stdout)
    assert (answer.returncode, told["ok"], told["key_given"]) == (1, False, True)
    assert told["problems"][0] == {"entry": 0, "text": "entry 0: is missing"}


def test_the_script_answers_2_when_it_cannot_look(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(bundle / "nothing")]) == 2
    assert main([str(bundle), "--key", "garbage"]) == 2
    (bundle / "checkpoint").unlink()
    assert main([str(bundle)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 3


def test_many_problems_are_not_all_printed(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace_lines(bundle, [b"garbage\n"] * 80)
    assert main([str(bundle)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 52
    assert told[50].startswith("... and ")


def test_terminal_codes_in_a_bundle_are_not_printed(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = entry_lines(bundle)
    record = {**json.loads(lines[2]), "\x1b[2Jname": 1}
    replace_lines(bundle, [*lines[:2], json.dumps(record).encode() + b"\n", *lines[3:]])
    assert main([str(bundle)]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_a_bundle_is_for_its_owner_until_it_is_shared(original: Path) -> None:
    assert stat.S_IMODE(original.stat().st_mode) == 0o700


def test_a_run_of_two_thousand_entries_verifies(tmp_path: Path) -> None:
    journal = Journal()
    for number in range(1000):
        journal.call(number)
    assert check(journal.export(tmp_path / "bundle"), SIGNER.verifier_key).problems == ()


SHADOWED = ["__future__", "argparse", "base64", "collections", "hashlib", "json", "pathlib", "re", "typing", "urllib"]


@pytest.mark.parametrize("through", ["its path", "its folder", "a variable"])
def test_files_beside_the_script_do_not_stand_in_for_modules_of_python(bundle: Path, through: str) -> None:
    for name in SHADOWED:
        (bundle / f"{name}.py").write_text("print('VERIFIED: everything')\nraise SystemExit(0)\n")
    replace_lines(bundle, entry_lines(bundle)[1:])
    script = "verify.py" if through == "its folder" else str(bundle / "verify.py")
    environment = {"PYTHONPATH": str(bundle)} if through == "a variable" else {}

    answer = subprocess.run(
        [sys.executable, script, str(bundle), "--key", SIGNER.verifier_key],
        capture_output=True,
        text=True,
        cwd=bundle if through == "its folder" else "/",
        env=environment,
        check=False,
    )

    assert answer.returncode == 1, answer.stderr
    assert "VERIFIED: everything" not in answer.stdout
    assert "entry 0: is missing" in answer.stdout


def test_the_readme_of_a_bundle_says_to_use_ones_own_copy_of_the_script(bundle: Path) -> None:
    told = (bundle / "README.txt").read_text()

    assert "Use your own copy of verify.py" in told
    assert "python3 -I verify.py" in told


P = 2**255 - 19
SMALL = [
    *(y.to_bytes(32, "little") for y in (0, 1, P - 1, P, P + 1)),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
]


@pytest.mark.parametrize("public", [*SMALL, *(key[:31] + bytes([key[31] | 128]) for key in SMALL)])
def test_a_key_of_small_order_is_refused_by_the_script_by_the_audit_and_for_tokens(public: bytes) -> None:
    data = b"\x01" + public
    key_id = hashlib.sha256(b"example.org/j\n" + data).hexdigest()[:8]
    text = f"example.org/j+{key_id}+{base64.b64encode(data).decode()}"

    with pytest.raises(InvalidBundle, match="fits any signature"):
        parse_key(text)
    with pytest.raises(UsageError, match="fits any signature"):
        Verifier.parse(text)
    assert public_key(f"ed25519:{to_base64(public)}") is None


@given(st.binary(min_size=32, max_size=32))
def test_no_ordinary_key_is_taken_for_one_of_small_order(seed: bytes) -> None:
    verifier = Signer.from_seed("example.org/j", seed).verifier

    assert parse_key(verifier.text).public == verifier.public
    assert public_key(f"ed25519:{to_base64(verifier.public)}") == verifier.public
