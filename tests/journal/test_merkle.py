"""The tree, against the vectors of Certificate Transparency, against pymerkle, and against itself."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings, strategies as st
from pymerkle import InmemoryTree

from handrail.journal.merkle import Frontier, leaf_hash, root
from handrail.journal.verifier import included
from tests.examples import examples
from tests.journal.whole_trees import inclusion_proofs

CT_LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
CT_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
entries = st.lists(st.binary(max_size=8), min_size=1, max_size=70)


def hashes(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % number) for number in range(count)]


def proof_of(leaves: list[bytes], index: int, size: int) -> list[bytes]:
    return inclusion_proofs(leaves, [index], size)[0]


@pytest.mark.parametrize("size", range(9))
def test_roots_are_those_of_certificate_transparency(size: int) -> None:
    assert root(map(leaf_hash, CT_LEAVES[:size])).hex() == CT_ROOTS[size]


def test_the_root_of_nothing_is_the_hash_of_nothing() -> None:
    assert Frontier().root() == root([]) == hashlib.sha256(b"").digest()


@given(entries)
@settings(max_examples=examples(60), deadline=None)
def test_roots_are_those_of_pymerkle(data: list[bytes]) -> None:
    oracle = InmemoryTree(algorithm="sha256")
    for item in data:
        oracle.append_entry(item)
    assert root(map(leaf_hash, data)) == oracle.get_root()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 21])
def test_inclusion_proofs_hold_the_hashes_that_pymerkle_gives(size: int) -> None:
    oracle = InmemoryTree(algorithm="sha256")
    for number in range(size):
        oracle.append_entry(b"%d" % number)
    for index, proof in enumerate(inclusion_proofs(hashes(size), range(size), size)):
        theirs = oracle.prove_inclusion(index + 1).serialize()["path"]
        leaf = hashes(size)[index].hex()
        assert sorted([leaf, *(step.hex() for step in proof)]) == sorted(theirs)


@given(st.data())
@settings(max_examples=examples(80), deadline=None)
def test_an_inclusion_proof_verifies_for_its_leaf_and_place_only(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 130))
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(-1, size + 1).filter(lambda number: number != index))
    leaves = hashes(140)
    proof, top = proof_of(leaves, index, size), root(leaves[:size])
    assert included(leaves[index], index, size, proof, top)
    assert not included(leaves[139], index, size, proof, top)
    assert not included(leaves[index], other, size, proof, top)
    assert not included(leaves[index], index, size, [*proof, top], top)
    assert not proof or not included(leaves[index], index, size, proof[:-1], top)


@given(st.data())
@settings(max_examples=examples(80), deadline=None)
def test_a_changed_inclusion_proof_does_not_verify(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 100))
    index = data.draw(st.integers(0, size - 1))
    leaves = hashes(size)
    proof = proof_of(leaves, index, size)
    step, bit = data.draw(st.integers(0, len(proof) - 1)), data.draw(st.integers(0, 255))
    proof[step] = (int.from_bytes(proof[step], "big") ^ (1 << bit)).to_bytes(32, "big")
    assert not included(leaves[index], index, size, proof, root(leaves))


@given(st.integers(0, 200), st.integers(0, 50))
@settings(max_examples=examples(60), deadline=None)
def test_a_saved_frontier_goes_on_where_it_was(before: int, after: int) -> None:
    leaves = hashes(before + after)
    frontier = Frontier()
    for leaf in leaves[:before]:
        frontier.append(leaf)
    taken_up = Frontier.load(frontier.size, frontier.save())
    for leaf in leaves[before:]:
        taken_up.append(leaf)
    assert taken_up.size == before + after
    assert taken_up.root() == root(leaves)
    assert len(frontier.save()) == 32 * before.bit_count()


@pytest.mark.parametrize(("size", "data"), [(1, b""), (3, bytes(32)), (2, bytes(33)), (-1, b"")])
def test_a_frontier_that_does_not_fit_its_size_is_refused(size: int, data: bytes) -> None:
    with pytest.raises(ValueError, match="frontier"):
        Frontier.load(size, data)


def test_raw_data_in_the_place_of_a_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="leaf_hash"):
        Frontier().append(b"an entry")


def test_a_proof_for_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no leaf 3"):
        proof_of(hashes(5), 3, 3)
    with pytest.raises(ValueError, match="cannot be made"):
        proof_of(hashes(5), 3, 6)
