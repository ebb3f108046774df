"""What a reply asks for: code, a final answer, or neither."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.rlm.repl.reply_parser import ParsedReply, read_reply

LINES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r`~'\"#\\"), max_size=40)
CODE = st.lists(LINES, min_size=1, max_size=6).map("\n".join).filter(str.strip)
PROSE = LINES.filter(lambda line: "FINAL" not in line)


@given(st.lists(st.tuples(PROSE, CODE), max_size=4), PROSE)
def test_every_block_is_read_as_it_was_written(parts: list[tuple[str, str]], end: str) -> None:
    text = "\n".join(f"{prose}\n```repl\n{code}\n```" for prose, code in parts) + f"\n{end}"

    assert read_reply(text).blocks == tuple(code for _, code in parts)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(read_reply(text), ParsedReply)
    assert isinstance(read_reply(f"```repl\n{text}\n```\nFINAL({text})"), ParsedReply)


@given(st.text(st.characters(codec="utf-8", exclude_characters="()\r\n'\"\\"), min_size=1).filter(str.strip))
def test_the_words_of_a_final_are_read_as_they_were_written(words: str) -> None:
    assert read_reply(f"Done.\nFINAL({words})").final == words.strip()
    assert read_reply(f'FINAL("{words})(")\nThat is (all).').final == f"{words})(".strip()


@pytest.mark.parametrize(
    ("reply", "blocks"),
    [
        ("~~~repl\nx = 1\n~~~", ("x = 1",)),
        ("- so:\n  ```repl\n  if x:\n      y()\n  ```", ("if x:\n    y()",)),
        ("````repl\nprint('```')\n```\n````", ("print('```')\n```",)),
        ("```python\nx = 1\n```", ("x = 1",)),
        ("```python\nnot this\n```\n```repl\nx = 1\n```", ("x = 1",)),
        ("```json\n{}\n```", ()),
        ("```repl\n\n```", ()),
        ("```REPL title\r\nx = 1\r\n```", ("x = 1",)),
        ("`` `repl` is not a fence ``", ()),
        ("```repl\np = '''\n```json\n{}\n```\n'''\n```", ("p = '''\n```json\n{}\n```\n'''",)),
        ("```repl\n# it's\nx = 'a'  # '''\n```\nwords\n```\n", ("# it's\nx = 'a'  # '''",)),
        ('```repl\nx = """never closed\n```\nwords', ('x = """never closed',)),
    ],
)
def test_fences_as_models_write_them(reply: str, blocks: tuple[str, ...]) -> None:
    assert read_reply(reply).blocks == blocks


def test_a_block_that_the_end_of_the_reply_cuts_is_not_run() -> None:
    assert read_reply("```repl\na()\n```\n```repl\nrm_all(") == ParsedReply(blocks=("a()",), cut=True)


@pytest.mark.parametrize(
    ("reply", "final"),
    [
        ("FINAL(42)", "42"),
        ("FINAL(the (nested) one) \nlater (in prose)", "the (nested) one"),
        ('FINAL("in quotes")', "in quotes"),
        ("FINAL('it\\'s')", "it's"),
        ('FINAL("""two\nlines""")', "two\nlines"),
        ('FINAL("one" and "two")', '"one" and "two"'),
        ("FINAL(over\ntwo lines)", "over\ntwo lines"),
        ("FINAL(it's fine)", "it's fine"),
        ("  FINAL( spaced )  ", "spaced"),
        ("FINAL(first)\nFINAL(second)", "second"),
    ],
)
def test_a_final_has_its_parentheses_and_no_more(reply: str, final: str) -> None:
    assert read_reply(reply).final == final


@pytest.mark.parametrize(
    "reply",
    [
        "I will call FINAL(x) when I am done.",
        "FINAL(x) is how one ends, and I will.",
        "```text\nFINAL(x)\n```",
        "```repl\nprint('''\nFINAL(x)\n''')\n```",
        "FINAL()",
        "FINAL_VAR(not a name)",
        "`FINAL(x)`",
        "FINALLY(x)",
    ],
)
def test_a_mention_of_a_final_is_none(reply: str) -> None:
    written = read_reply(reply)

    assert (written.final, written.final_var) == (None, None)


@pytest.mark.parametrize("reply", ["FINAL_VAR(result)", 'FINAL_VAR("result")', "words\n FINAL_VAR( 'result' )"])
def test_a_variable_is_named_with_or_without_quotes(reply: str) -> None:
    assert read_reply(reply) == ParsedReply(final_var="result")


def test_a_final_without_its_end_is_said_to_be_so() -> None:
    assert read_reply("FINAL(a :( b") == ParsedReply(unclosed=True)
