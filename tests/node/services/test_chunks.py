"""How documents are cut: nothing lost, nothing too long, at borders that a reader would choose."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from handrail.node.services.rag.chunks import DocumentChunk, split_into_chunks
from handrail.node.services.rag.index import fuse_rankings
from tests.examples import examples

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=30)
PAGES = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from([" ", ". ", "\n", "\n\n", "! ", "\n# "])), max_size=60).map(
        lambda pairs: "".join(word + gap for word, gap in pairs)
    ),
    max_size=4,
)


@given(pages=PAGES, size=st.integers(40, 300), overlap=st.integers(0, 60))
@settings(max_examples=examples(150), deadline=None)
def test_every_word_of_a_page_is_in_a_chunk_of_it_and_no_chunk_is_too_long(
    pages: list[str], size: int, overlap: int
) -> None:
    cut = list(split_into_chunks(pages, paged=True, size=size, overlap=overlap))

    assert all(0 < len(chunk.text) <= size for chunk in cut)
    for number, page in enumerate(pages, 1):
        mine = [chunk.text for chunk in cut if chunk.page == number]
        assert {word for word in page.split() if not any(word in text for text in mine)} == set()


@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=9), max_size=120), size=st.integers(20, 80))
@settings(max_examples=examples(60), deadline=None)
def test_without_overlap_the_chunks_joined_are_the_text(words: list[str], size: int) -> None:
    page = ". ".join(words)

    assert (
        " ".join(chunk.text for chunk in split_into_chunks([page], paged=False, size=size, overlap=0)).split()
        == page.split()
    )


def test_a_chunk_begins_at_a_heading_and_takes_the_end_of_the_one_before_with_it_otherwise() -> None:
    page = "# One\nFirst sentence here. Second sentence here. Third sentence here.\n# Two\nThe last one."

    assert list(split_into_chunks([page], paged=False, size=60, overlap=25)) == [
        DocumentChunk("# One\nFirst sentence here. Second sentence here.", None),
        DocumentChunk("Second sentence here. Third sentence here.", None),
        DocumentChunk("# Two\nThe last one.", None),
    ]


def test_sentences_are_parted_behind_their_quotation_marks() -> None:
    page = 'He said: "Stop." Then (he left.) Nobody came.'

    assert [chunk.text for chunk in split_into_chunks([page], paged=False, size=24, overlap=0)] == [
        'He said: "Stop."',
        "Then (he left.)",
        "Nobody came.",
    ]


def test_what_two_rankings_agree_on_comes_before_what_one_has_first() -> None:
    ranked = fuse_rankings([[1, 2, 3], [9, 2, 8]])

    assert ranked[0][0] == 2
    assert {id for id, _ in ranked} == {1, 2, 3, 8, 9}
    assert fuse_rankings([[5], [5]]) == [(5, 1.0)]
    assert fuse_rankings([[], []]) == []
