"""Standing rules: the first that covers a call decides, and nothing sneaks past by its spelling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny
from handrail.core.errors import UsageError
from handrail.execute.rules import Rule, Rules

segments = st.text(st.characters(exclude_characters="*?/\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
plain_segments = segments.filter(lambda segment: segment not in (".", ".."))
paths = st.lists(plain_segments, min_size=1, max_size=4).map("/".join)


def question(tool: str = "io:write_file", **arguments: Any) -> Confirmation:
    return Confirmation(
        request="confirm_1", run="run_1", call_id="c1", tool=tool, description="", arguments=arguments, binds="b"
    )


def covers(rule: str, tool: str = "io:write_file", **arguments: Any) -> bool:
    return Rule.parse(rule).covers(question(tool, **arguments))


def argument_rule(decision: Any, pattern: str) -> Rule:
    return Rule(decision, "io:write_file", (("path", pattern),))


class Asked:
    """An approver that notes what it was asked."""

    def __init__(self) -> None:
        self.questions: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.questions.append(question)
        return Allow("ada")


# ── reading ───────────────────────────────────────────────────────────────────────────


def test_a_rule_is_read_as_people_write_it() -> None:
    assert Rule.parse("  allow   io:write_file\tpath=docs/** mode=w ") == Rule(
        "allow", "io:write_file", (("path", "docs/**"), ("mode", "w"))
    )
    assert Rule.parse("deny *:delete_*") == Rule("deny", "*:delete_*")
    assert Rule.parse("allow fetch url=https://example.org/?a=b").arguments == (("url", "https://example.org/?a=b"),)


@pytest.mark.parametrize(
    "text", ["", " ", "allow", "permit io:read", "ALLOW io:read", "allow io:read path", "deny io:read =x", "# allow a"]
)
def test_what_is_no_rule_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(UsageError, match="not of the form"):
        Rule.parse(text)


@given(
    st.sampled_from(["allow", "deny"]),
    st.text("abc:*_", min_size=1),
    st.lists(st.tuples(st.text("ab", min_size=1), st.text("a*/?="))),
)
def test_a_rule_comes_back_from_its_text(decision: Any, tool: str, arguments: list[tuple[str, str]]) -> None:
    rule = Rule(decision, tool, tuple(arguments))

    assert Rule.parse(str(rule)) == rule


# ── deciding ──────────────────────────────────────────────────────────────────────────


async def test_the_first_rule_that_covers_a_call_decides() -> None:
    rules = Rules(["deny io:write_file path=docs/secret/**", "allow io:write_file path=docs/**", Rule("deny", "io:*")])

    assert isinstance(await rules.decide(question(path="docs/a.md")), Allow)
    assert isinstance(await rules.decide(question(path="docs/secret/a.md")), Deny)
    assert isinstance(await rules.decide(question(path="src/a.py")), Deny)


async def test_the_answer_names_the_rule() -> None:
    assert await Rules(["allow io:*"]).decide(question()) == Allow("rule 'allow io:*'")
    assert await Rules(["deny io:*"]).decide(question()) == Deny("rule 'deny io:*'")


async def test_where_no_rule_covers_a_call_another_is_asked() -> None:
    asked = Asked()

    assert await Rules(["allow web:*"], asked).decide(question()) == Allow("ada")
    assert asked.questions == [question()]


async def test_where_nobody_else_can_be_asked_the_call_waits() -> None:
    assert await Rules([]).decide(question()) == Defer()


# ── tools ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "tool", "covered"),
    [
        ("io:write_file", "io:write_file", True),
        ("write_file", "io:write_file", True),
        ("*:delete_*", "io:delete_file", True),
        ("*:delete_*", "delete_file", False),
        ("delete_*", "io:delete_file", True),
        ("io:*", "web:io", False),
        ("IO:*", "io:write_file", False),
        ("io:write", "io:write_file", False),
    ],
)
def test_a_rule_is_for_the_tools_of_its_pattern(pattern: str, tool: str, covered: bool) -> None:
    assert covers(f"allow {pattern}", tool) is covered


@given(segments.filter(lambda text: not set(text) & set("[]: \t")), segments.filter(lambda text: ":" not in text))
def test_a_tool_pattern_without_a_wildcard_matches_only_itself(pattern: str, tool: str) -> None:
    assert Rule("allow", pattern).covers(question(tool)) == (pattern == tool)


# ── arguments ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "value", "covered"),
    [
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/a/b.md", False),
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs", False),
        ("docs/**", "docsx/a", False),
        ("**/a.md", "x/y/a.md", True),
        ("docs/?.md", "docs/a.md", True),
        ("docs/?.md", "docs//.md", False),
        ("*.md", "a.md", True),
        ("*.md", "docs/a.md", False),
        ("a.md", "axmd", False),
        ("[a].md", "a.md", False),
        ("docs/**", "docs/a\nb", True),
        ("docs/a", "docs/a\n", False),
        ("**", "anything/at/all", True),
        ("**", "../anything", True),
        ("*", "", True),
        ("./docs/**", "docs/a", True),
        ("docs/**", "./docs//a", True),
        ("https://example.org/**", "https://example.org/a/b", True),
        ("https://example.org/**", "https://example.org.evil/a", False),
        ("https://example.org/**", "https://evil/https://example.org/a", False),
        ("https://example.org/**", "https://example.org@evil/a", False),
        ("../shared/*", "../shared/a", True),
    ],
)
@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_star_stays_within_a_segment_and_two_do_not(decision: str, pattern: str, value: str, covered: bool) -> None:
    assert argument_rule(decision, pattern).covers(question(path=value)) is covered


@given(st.sampled_from(["allow", "deny"]), paths, paths)
def test_a_pattern_without_a_wildcard_matches_only_itself(decision: str, pattern: str, value: str) -> None:
    rule = argument_rule(decision, pattern)

    assert rule.covers(question(path=pattern))
    assert rule.covers(question(path=value)) == (pattern == value)


@pytest.mark.parametrize(
    "value",
    [
        "docs/../secret",
        "docs/../../etc/passwd",
        "docs/./../secret",
        "docs//..//secret",
        "docs/a/../../secret",
        "../docs/a",
        "/docs/a",
        "//docs/a",
        "..",
        "docs/..",
        "docs/a\0/../../secret",
        "docs/a\0",
    ],
)
@pytest.mark.parametrize("pattern", ["docs/**", "docs/*", "docs/a"])
def test_nothing_outside_sneaks_past_an_allow(pattern: str, value: str) -> None:
    assert not argument_rule("allow", pattern).covers(question(path=value))


@pytest.mark.parametrize("value", [".", "..", "./", "../", "docs/..", "../..", "a\0", "docs/\0/../a", "/", "/a"])
@pytest.mark.parametrize("pattern", ["*", ".*", "?", "??"])
def test_a_star_is_something_in_the_folder_and_not_the_folder_or_above(pattern: str, value: str) -> None:
    assert not argument_rule("allow", pattern).covers(question(path=value))


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("secret/**", "secret/../secret/a"),
        ("secret/**", "./secret/a"),
        ("secret/**", "docs/../secret/a"),
        ("secret/**", "secret//a"),
        ("secret/**", "secret/./a"),
        ("secret/**", "../project/secret/a"),
        ("secret/**", "secret/a\0"),
        ("secret/**", "\0secret/a"),
        ("/etc/**", "//etc/passwd"),
        ("/etc/**", "///etc//passwd"),
        ("/etc/**", "/tmp/../etc/passwd"),
        ("/etc/**", "../../../etc/passwd"),
        ("https://evil.org/**", "https://evil.org/a"),
        ("https://evil.org/**", "https://evil.org//a/../b"),
        ("../*", "../../a"),
        ("*", "."),
        ("*", ".."),
        ("a", "docs/\0/../a"),
    ],
)
def test_no_spelling_of_a_place_sneaks_past_a_deny(pattern: str, value: str) -> None:
    assert argument_rule("deny", pattern).covers(question(path=value))


@given(st.lists(plain_segments | st.sampled_from([".", "..", ""]), min_size=1, max_size=6), st.booleans())
def test_what_an_allow_for_a_folder_covers_lies_in_that_folder(steps: list[str], inside: bool) -> None:
    value = "/".join((["docs"] if inside else []) + steps)
    if not argument_rule("allow", "docs/**").covers(question(path=value)):
        return
    place: list[str] = []
    for step in value.split("/"):
        match step:
            case "" | ".":
                continue
            case "..":
                assert place, "it never leaves where it started"
                place.pop()
            case _:
                place.append(step)

    assert not value.startswith("/")
    assert place[0] == "docs"
    assert len(place) > 1


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("https://good.example/**", "https://evil.example/../good.example/x"),
        ("https://good.example/**", "https://evil.example/a/../../good.example/x"),
        ("git **", "rm -rf a/../git /home/ada"),
        ("git **", "./git status"),
    ],
)
def test_an_address_or_a_command_is_not_allowed_for_what_is_left_of_it_as_a_path(pattern: str, value: str) -> None:
    assert not argument_rule("allow", pattern).covers(question(path=value))


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("https://evil.example/**", "https://evil.example/../x"), ("**rm -rf**", "rm -rf build/../src")],
)
def test_an_address_or_a_command_is_denied_as_it_is_written(pattern: str, value: str) -> None:
    assert argument_rule("deny", pattern).covers(question(path=value))


def test_a_rule_about_an_argument_does_not_cover_a_call_without_it() -> None:
    assert not covers("allow io:write_file path=**")
    assert not covers("deny io:write_file path=**", other="x")


def test_every_named_argument_must_fit() -> None:
    rule = "allow io:write_file path=docs/** mode=w"

    assert covers(rule, path="docs/a", mode="w", more=1)
    assert not covers(rule, path="docs/a", mode="x")


@pytest.mark.parametrize(
    ("pattern", "value", "covered"),
    [
        ("5", 5, True),
        ("5", 5.0, True),
        ("5", 50, False),
        ("true", True, True),
        ("1", True, False),
        ("null", None, True),
        ("*", {"a": 1}, True),
        ('{"a":1,"b":2}', {"b": 2, "a": 1}, True),
        ("5", 2**80, False),
        ("5", float("nan"), False),
        ("*", "\ud800", True),
    ],
)
def test_what_is_no_text_is_compared_as_json(pattern: str, value: Any, covered: bool) -> None:
    assert argument_rule("allow", pattern).covers(question(path=value)) is covered


@pytest.mark.parametrize(
    ("value", "allowed", "denied"),
    [
        (["docs/a", "docs/b"], True, True),
        (["docs/a", "src/b"], False, True),
        (["src/a"], False, False),
        (["docs/a", ["docs/b"]], True, True),
        (["src/a", ["docs/../src", "docs/b"]], False, True),
        ([], False, False),
    ],
)
def test_of_a_list_every_item_must_fit_to_be_allowed_and_one_is_enough_to_be_denied(
    value: list[Any], allowed: bool, denied: bool
) -> None:
    assert argument_rule("allow", "docs/**").covers(question(path=value)) is allowed
    assert argument_rule("deny", "docs/**").covers(question(path=value)) is denied


# ── asking ────────────────────────────────────────────────────────────────────────────


async def test_a_rule_that_asks_has_a_person_asked_whatever_the_rules_below_it_say() -> None:
    person = Asked()
    rules = Rules(["ask write_file path=docs/**", "allow write_file", "deny *"], person)
    assert await rules.decide(question(path="docs/a.md")) == Allow("ada")
    assert person.questions[0].why == "rule 'ask write_file path=docs/**'"
    assert await rules.decide(question(path="src/a.py")) == Allow("rule 'allow write_file'")
    assert len(person.questions) == 1
    assert await Rules(["ask write_file path=*", "allow *"], Rules(["allow *"])).decide(question(path="a")) == Defer()
    with pytest.raises(UsageError, match="every definition"):
        Rule.parse("ask pay@sha256:4f1c0a2b77d3")


def test_a_pattern_with_spaces_stands_in_quotes() -> None:
    rule = Rule.parse("""allow Bash command='git commit -m "a"**'""")
    assert rule.arguments == (("command", 'git commit -m "a"**'),)
    assert Rule.parse("allow read path=it's/**").arguments == (("path", "it's/**"),)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_a_rule_reads_as_it_is_written(pattern: str) -> None:
    rule = Rule("ask", "Bash", (("command", pattern),))
    assert Rule.parse(str(rule)) == rule
