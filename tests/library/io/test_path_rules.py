"""Rules on paths go by where a path leads, and not by how it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from handrail import Executor, ToolCall
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.desk.rule_offers import suggest_rules
from handrail.execute.rules import Rule, Rules
from handrail.library.io import IoSettings, io_ensemble
from tests.examples import examples


class Person:
    """Allows what is put to them, and remembers it."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[Confirmation] = []
        self._meanwhile = meanwhile

    async def decide(self, question: Confirmation) -> Decision:
        self.asked.append(question)
        self._meanwhile()
        return Allow("ada")


class Files:
    """Two roots, `work` and inside no other `notes`; `keep` in both is not to be touched."""

    def __init__(self, folder: Path) -> None:
        self.work, self.notes = folder / "work", folder / "notes"
        for root in (self.work, self.notes):
            (root / "keep" / "deep").mkdir(parents=True)
            (root / "docs").mkdir()
            for name in ("keep/a.txt", "docs/b.txt", "c.txt"):
                (root / name).write_text("old")
        (self.work / "docs" / "l").symlink_to("../keep/deep")
        (self.work / "hidden").symlink_to("keep")
        self.settings = IoSettings(roots={"work": self.work, "notes": self.notes}, write=("work", "notes"))

    async def call(self, tool: str, *rules: str, person: Person | None = None, **arguments: Any) -> str:
        """The outcome of a call, `ok asked` if a person allowed it."""
        person = person or Person()
        async with Executor([io_ensemble(self.settings)], approver=Rules(rules, person)) as executor:
            result = await executor.invoke(ToolCall("", f"io:{tool}", arguments))
        return f"{result.outcome}{' asked' if person.asked else ''}"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


NO_KEEP = ("deny io:* path=keep/**", "allow io:*")


@pytest.mark.parametrize(
    "spelling",
    [
        "keep/new",
        "work:keep/new",
        "./keep//new",
        "docs/../keep/new",
        "hidden/new",
        "docs/l/new",
        "docs/l/../new",
        "{work}/keep/new",
        "{work}/docs/../keep/new",
        "keep/not-there-yet/new",
    ],
)
async def test_a_deny_covers_every_spelling_of_a_path(spelling: str, files: Files) -> None:
    path = spelling.format(work=files.work)

    assert await files.call("write_file", *NO_KEEP, path=path, text="x", parents=True) == "denied"
    assert not list(files.work.rglob("new"))


async def test_a_deny_without_a_root_is_for_the_first_root_and_one_with_a_star_for_all(files: Files) -> None:
    everywhere = ("deny io:* path=*:keep/**", "allow io:*")

    assert await files.call("write_file", *NO_KEEP, path="notes:keep/new", text="x") == "ok"
    assert await files.call("write_file", *everywhere, path="notes:keep/other", text="x") == "denied"
    assert await files.call("write_file", *everywhere, path="keep/other", text="x") == "denied"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("delete", {"path": "keep", "recursive": True}),
        ("delete", {"path": "keep/a.txt"}),
        ("move", {"source": "keep/a.txt", "target": "a.txt"}),
        ("move", {"source": "keep", "target": "kept"}),
        ("move", {"source": "c.txt", "target": "hidden/c.txt"}),
        ("edit_file", {"path": "hidden/a.txt", "edits": [{"old": "old", "new": "new"}]}),
        ("make_folder", {"path": "hidden/folder"}),
    ],
)
async def test_a_deny_on_paths_is_for_every_tool_that_changes_one(
    tool: str, arguments: dict[str, Any], files: Files
) -> None:
    assert await files.call(tool, *NO_KEEP, **arguments) == "denied"


async def test_a_folder_that_is_moved_brings_nothing_to_where_a_deny_is(files: Files) -> None:
    no_ssh = ("deny io:* path=.ssh/**", "allow io:*")

    assert await files.call("move", *no_ssh, source="docs", target=".ssh") == "denied"
    assert await files.call("move", *no_ssh, source="docs", target="texts") == "ok"


async def test_a_deny_covers_a_name_that_is_spelled_with_other_letters_and_looks_the_same(files: Files) -> None:
    (files.work / "cafe\u0301").mkdir()
    rules = ("deny io:* path=caf\u00e9/**", "allow io:*")

    assert await files.call("write_file", *rules, path="cafe\u0301/new", text="x") == "denied"


async def test_an_allow_covers_its_own_root_only(files: Files) -> None:
    for pattern, path in (
        ("*.txt", "notes:new.txt"),
        ("docs/**", "notes:docs/new.txt"),
        ("**/new.txt", "notes:new.txt"),
    ):
        asked = await files.call("write_file", f"allow io:* path={pattern}", path=path, text="x", mode="overwrite")
        assert asked == "ok asked"

    for pattern, path in (
        ("*.txt", "new.txt"),
        ("*.txt", "work:new.txt"),
        ("notes:*.txt", "notes:new.txt"),
        ("*:*.txt", "notes:new.txt"),
        ("**", "notes:docs/new.txt"),
        (f"{files.notes}/**", "notes:docs/new.txt"),
        ("notes:docs/**", f"{files.notes}/docs/new.txt"),
    ):
        assert (
            await files.call("write_file", f"allow io:* path={pattern}", path=path, text="x", mode="overwrite") == "ok"
        )


async def test_an_allow_does_not_cover_what_lies_behind_a_link(files: Files) -> None:
    for path in ("docs/l/../victim", "docs/l/victim"):
        assert await files.call("write_file", "allow io:* path=docs/**", path=path, text="x") == "ok asked"


async def test_an_allow_for_a_move_holds_for_both_of_its_paths(files: Files) -> None:
    rule = "allow io:move path=docs/**"

    assert await files.call("move", rule, source="docs/b.txt", target="out.txt") == "ok asked"
    assert await files.call("move", rule, source="out.txt", target="docs/b.txt") == "ok asked"
    assert await files.call("move", rule, source="docs/b.txt", target="docs/d.txt") == "ok"


async def test_a_path_that_leads_elsewhere_once_it_is_allowed_changes_nothing(files: Files) -> None:
    def relink() -> None:
        (files.work / "docs").rename(files.work / "docs-before")
        (files.work / "docs").symlink_to("keep")

    person = Person(relink)
    outcome = await files.call("write_file", person=person, path="docs/a.txt", text="new", mode="overwrite")

    assert outcome == "failed asked"
    assert (files.work / "keep" / "a.txt").read_text() == "old"


async def test_folders_on_the_way_are_made_only_where_it_was_decided(files: Files) -> None:
    def relink() -> None:
        (files.work / "docs").rename(files.work / "docs-before")
        (files.work / "docs").symlink_to("keep")

    for tool, more in (("write_file", {"text": "x", "parents": True}), ("make_folder", {})):
        here = Files(files.work / tool)
        files.work, before = here.work, files.work
        assert await here.call(tool, person=Person(relink), path="docs/x/y", **more) == "failed asked"
        assert not (here.work / "keep" / "x").exists()
        files.work = before


@pytest.mark.parametrize("path", ["docs/new", "docs/../docs/new", "work:docs/./new", "{work}/docs/new"])
async def test_what_is_suggested_is_one_spelling_of_the_place(path: str, files: Files) -> None:
    person = Person()
    await files.call("write_file", person=person, path=path.format(work=files.work), text="x")
    (question,) = person.asked

    rules = [Rule.parse(text) for text in suggest_rules(question)]

    assert {dict(rule.arguments).get("path") for rule in rules} == {"work:docs/new", "work:docs/**", None}


async def test_nothing_that_climbs_is_ever_suggested(files: Files) -> None:
    person = Person()
    await files.call("write_file", person=person, path="docs/not/../there", text="x", parents=True)
    of_another = Confirmation(
        request="r",
        run="r",
        call_id="c",
        tool="put",
        description="",
        arguments={"path": "docs/../keep/a"},
        binds="b",
    )

    assert [suggest_rules(each) for each in (*person.asked, of_another)] == [(), ()]


names = st.sampled_from(["keep", "docs", "l", "hidden", "..", ".", "", "a.txt", "new", "deep"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(st.lists(names, min_size=1, max_size=6).map("/".join), st.sampled_from(["", "work:", "notes:", "abs"]))
async def test_no_spelling_of_a_path_changes_what_is_denied(tmp_path: Path, path: str, prefix: str) -> None:
    if not (tmp_path / "work").exists():
        Files(tmp_path)
    files = Files.__new__(Files)
    files.work, files.notes = tmp_path / "work", tmp_path / "notes"
    files.settings = IoSettings(roots={"work": files.work, "notes": files.notes}, write=("work", "notes"))
    written = f"{files.work}/{path}" if prefix == "abs" else f"{prefix}{path}"
    before = sorted(files.work.glob("keep/**/*"))

    await files.call("write_file", *NO_KEEP, path=written, text="x", parents=True)
    await files.call("make_folder", *NO_KEEP, path=written)

    assert sorted(files.work.glob("keep/**/*")) == before
