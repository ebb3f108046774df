"""Checkpoints and keys: the C2SP forms, what is refused, and how a key file is kept."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.journal.keys import Signer, Verifier
from handrail.journal.note import Checkpoint, open_note, sign, split_note
from handrail.journal.verifier import parse_key, parse_note, verify_ed25519
from tests.examples import examples

# The example of Go's note package, which the format comes from.
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz\n"
GO_VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
SIGNER = Signer.from_seed("example.org/journal", bytes(range(32)))
OTHER = Signer.from_seed("example.org/other", bytes(32))
CHECKPOINT = Checkpoint("example.org/journal", 20852163, bytes(32), ("handrail-run run_1 3",))

lines = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)


def test_a_checkpoint_has_the_text_that_c2sp_gives() -> None:
    root = base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert Checkpoint("example.com/behind-the-sofa", 20852163, root).text() == text
    assert Checkpoint.parse(text).root == root


def test_a_note_signed_by_go_verifies_with_its_key() -> None:
    text, (signature,) = split_note(GO_NOTE)
    verifier = Verifier.parse(GO_VERIFIER)
    assert (signature.name, signature.key_id) == (verifier.name, verifier.key_id)
    assert verifier.verify(text.encode(), signature.signature)
    assert not verifier.verify(text.encode() + b" ", signature.signature)


def test_a_private_key_written_by_go_signs_as_go_does(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(GO_PRIVATE)
    path.chmod(0o600)
    signer = Signer.load_or_create(path, "PeterNeumann")
    assert signer.verifier_key == GO_VERIFIER
    text, (signature,) = split_note(GO_NOTE)
    assert signer.sign(text.encode()) == signature.signature


@given(lines, st.integers(0, 2**63), st.binary(min_size=32, max_size=32), st.lists(lines, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_signed_is_what_is_opened(origin: str, size: int, root: bytes, extensions: list[str]) -> None:
    checkpoint = Checkpoint(origin, size, root, tuple(extensions))
    assert open_note(sign(checkpoint, SIGNER), [OTHER.verifier, SIGNER.verifier]) == checkpoint


@given(st.data())
@settings(max_examples=examples(200), deadline=None)
def test_no_letter_of_a_note_can_be_changed(data: st.DataObject) -> None:
    note = sign(CHECKPOINT, SIGNER)
    at = data.draw(st.integers(0, len(note) - 1))
    letter = data.draw(st.characters().filter(lambda letter: letter != note[at]))
    with pytest.raises(BrokenProof):
        open_note(note[:at] + letter + note[at + 1 :], [SIGNER.verifier])


@given(st.text())
@settings(max_examples=examples(100), deadline=None)
def test_any_other_text_is_a_broken_proof(text: str) -> None:
    with pytest.raises(BrokenProof):
        open_note(text, [SIGNER.verifier])
    with pytest.raises(BrokenProof):
        Checkpoint.parse(f"{text}\n1\n")


def test_a_note_by_an_unknown_key_names_the_key() -> None:
    with pytest.raises(BrokenProof, match=r"no known key.*example\.org/other\+"):
        open_note(sign(CHECKPOINT, OTHER), [SIGNER.verifier])


def test_a_signature_by_an_unknown_key_is_passed_over() -> None:
    cosigned = sign(CHECKPOINT, SIGNER) + sign(CHECKPOINT, OTHER).rpartition("\n\n")[2]
    assert open_note(cosigned, [SIGNER.verifier]) == CHECKPOINT
    assert open_note(cosigned, [OTHER.verifier]) == CHECKPOINT


def test_a_wrong_signature_by_a_known_key_breaks_the_whole_note() -> None:
    changed = Checkpoint("example.org/journal", 1, bytes(32))
    mixed = sign(CHECKPOINT, SIGNER) + sign(changed, OTHER).rpartition("\n\n")[2]
    with pytest.raises(BrokenProof, match="does not fit"):
        open_note(mixed, [SIGNER.verifier, OTHER.verifier])


@pytest.mark.parametrize(
    ("origin", "size", "root", "extension"),
    [
        ("", 1, 32, "x"),
        ("a\nb", 1, 32, "x"),
        ("a", -1, 32, "x"),
        ("a", 1, 31, "x"),
        ("a", 1, 32, ""),
        ("a", 1, 32, "\t"),
    ],
)
def test_a_checkpoint_that_could_be_read_as_another_cannot_be_made(
    origin: str, size: int, root: int, extension: str
) -> None:
    with pytest.raises(UsageError):
        Checkpoint(origin, size, bytes(root), (extension,))


@pytest.mark.parametrize("size", ["01", "+1", "-1", "1e3", "", "١", "9" * 20])
def test_a_size_has_one_spelling(size: str) -> None:
    with pytest.raises(BrokenProof, match="size"):
        Checkpoint.parse(f"a\n{size}\n{'A' * 43}=\n")


def test_base64_has_one_spelling() -> None:
    Checkpoint.parse(f"a\n1\n{'A' * 43}=\n")
    with pytest.raises(BrokenProof, match="base64"):
        Checkpoint.parse(f"a\n1\n{'A' * 42}B=\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a+b",
        "a+b+c",
        "x" + GO_VERIFIER,
        GO_VERIFIER + "=",
        GO_VERIFIER[:-4],
        "a b+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        GO_VERIFIER.replace("+ARpc", "+AhpC"),
    ],
)
def test_a_text_that_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Verifier.parse(text)


@given(st.text())
@settings(max_examples=examples(100), deadline=None)
def test_any_text_is_a_verifier_key_or_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Verifier.parse(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u00a0b"])
def test_a_name_that_would_break_the_format_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a key"):
        Signer.from_seed(name, bytes(32))


def test_a_new_key_file_is_private_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "signing.key"
    made = Signer.load_or_create(path, "example.org/journal")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Signer.load_or_create(path, "example.org/journal").verifier == made.verifier
    assert [item.name for item in path.parent.iterdir()] == ["signing.key"]


def test_a_key_that_another_process_made_meanwhile_is_the_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    theirs: list[Signer] = []

    def slow_random(count: int) -> bytes:
        theirs.append(Signer.load_or_create(path, "example.org/journal"))
        return os.urandom(count)

    mine = Signer.load_or_create(path, "example.org/journal", slow_random)
    assert mine.verifier == theirs[0].verifier


def test_a_key_file_that_others_can_read_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "key"
    Signer.load_or_create(path, "example.org/journal")
    path.chmod(0o640)
    with pytest.raises(JournalError, match=r"mode 0640.*chmod 600"):
        Signer.load_or_create(path, "example.org/journal")


def test_a_key_file_for_another_name_is_refused(tmp_path: Path) -> None:
    Signer.load_or_create(tmp_path / "key", "example.org/journal")
    with pytest.raises(JournalError, match=r"belongs to 'example.org/journal', not 'else'"):
        Signer.load_or_create(tmp_path / "key", "else")


def test_a_damaged_key_file_is_refused_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for text in ("", "garbage", GO_PRIVATE[:-5], GO_PRIVATE.replace("c74f", "c74e"), GO_PRIVATE * 2, "ü" * 40):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(JournalError, match="no usable signing key") as caught:
            Signer.load_or_create(path, "PeterNeumann")
        assert caught.value.__context__ is None
        assert "AYEKFALV" not in str(caught.value)


def test_a_folder_or_a_pipe_in_the_place_of_the_key_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "pipe" / "key"):
        with pytest.raises(JournalError):
            Signer.load_or_create(path, "example.org/journal")


def test_a_signer_does_not_show_its_key() -> None:
    shown = repr(SIGNER) + str(SIGNER)
    assert "example.org/journal" in shown
    assert bytes(range(32)).hex() not in shown
    assert base64.b64encode(bytes(range(32))).decode() not in shown


RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), RFC_8032)
def test_the_stand_alone_ed25519_accepts_the_vectors_of_rfc_8032(public: str, message: str, signature: str) -> None:
    assert verify_ed25519(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64), st.integers(0, 511))
@settings(max_examples=examples(25), deadline=None)
def test_the_stand_alone_ed25519_agrees_with_the_library(seed: bytes, message: bytes, bit: int) -> None:
    signer = Signer.from_seed("a", seed)
    public, signature = signer.verifier.public, signer.sign(message)
    changed = (int.from_bytes(signature, "big") ^ (1 << bit)).to_bytes(64, "big")
    assert verify_ed25519(public, message, signature)
    assert not verify_ed25519(public, message, changed)
    assert not verify_ed25519(public, message + b"x", signature)


@given(st.binary(max_size=40), st.binary(max_size=70))
@settings(max_examples=examples(25), deadline=None)
def test_the_stand_alone_ed25519_refuses_noise(public: bytes, signature: bytes) -> None:
    assert not verify_ed25519(public, b"message", signature)
    assert not verify_ed25519(public.ljust(32, b"\xff")[:32], b"message", signature.ljust(64, b"\xff")[:64])


def test_the_stand_alone_verifier_reads_notes_and_keys_as_we_do() -> None:
    note, key = parse_note(sign(CHECKPOINT, SIGNER).encode()), parse_key(SIGNER.verifier_key)
    assert note.text.decode() == CHECKPOINT.text()
    assert (note.origin, note.size, note.root, note.run, note.entries) == (
        "example.org/journal",
        20852163,
        bytes(32),
        "run_1",
        3,
    )
    assert (key.name, key.id, key.public) == (SIGNER.name, SIGNER.verifier.key_id, SIGNER.verifier.public)
