"""Keys in files, and the ids that are made of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import UsageError
from handrail.node.tokens.identity import NODE_ID, Identity, from_base64, public_key, to_base64, verify
from tests.node.tokens.signing_nodes import ADA, BOB


def test_an_id_is_the_public_key_and_checks_signatures() -> None:
    signature = ADA.sign(b"hello")

    assert NODE_ID.fullmatch(ADA.node_id)
    assert verify(ADA.node_id, signature, b"hello")
    assert not verify(ADA.node_id, signature, b"hello!")
    assert not verify(BOB.node_id, signature, b"hello")


@given(st.text(max_size=100), st.text(max_size=100))
def test_what_is_no_id_or_no_signature_signs_nothing(node_id: str, signature: str) -> None:
    assert not verify(node_id, signature, b"hello")
    assert not verify(ADA.node_id, signature, b"hello")
    assert not verify(node_id, ADA.sign(b"hello"), b"hello")


@given(st.binary(max_size=80))
def test_bytes_have_one_spelling(data: bytes) -> None:
    text = to_base64(data)

    assert from_base64(text) == data
    assert from_base64(text + "=") is None


def test_a_key_with_other_last_bits_is_no_id() -> None:
    last = ADA.node_id[-1]
    twins = [ADA.node_id[:-1] + each for each in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"]

    assert [each for each in twins if public_key(each) == public_key(ADA.node_id)] == [ADA.node_id[:-1] + last]


def test_a_key_is_made_once_in_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "identity.key"

    made = Identity.load_or_create(path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert Identity.load_or_create(path).node_id == made.node_id == Identity.load(path).node_id
    assert [each.name for each in path.parent.iterdir()] == ["identity.key"]


def test_a_key_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    first = Identity.create(path)

    with pytest.raises(UsageError, match="already"):
        Identity.create(path)

    assert Identity.load(path).node_id == first.node_id
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    Identity.create(path)
    path.chmod(0o640)

    with pytest.raises(UsageError, match="chmod 600"):
        Identity.load(path)


@pytest.mark.parametrize("content", ["", "ed25519-private-key:", "ed25519-private-key:AAAA\n", "x" * 5000])
def test_a_file_without_a_key_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "identity.key"
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(UsageError, match="no usable key") as caught:
        Identity.load(path)

    assert "AAAA" not in str(caught.value)


def test_what_is_no_file_is_refused_and_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)

    with pytest.raises(UsageError, match="not a file"):
        Identity.load(tmp_path / "pipe")
    with pytest.raises(UsageError, match="handrail identity new"):
        Identity.load(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot make"):
        (tmp_path / "file").touch()
        Identity.create(tmp_path / "file" / "identity.key")


def test_the_key_is_in_no_repr() -> None:
    assert to_base64(ADA.seed) not in repr(ADA)
    assert ADA.node_id in repr(ADA)
