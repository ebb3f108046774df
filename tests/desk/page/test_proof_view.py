"""The Proof view: what ran, checked by the browser itself, which believes the node nothing."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from handrail import Context, Executor, ToolCall, tool
from handrail.desk.views.proofs import INLINE
from handrail.journal.auditing import Receipt
from handrail.journal.journal import SqliteJournal
from handrail.journal.keys import Verifier
from handrail.journal.reader import erase
from handrail.journal.verifier import check
from tests.desk.page.chat_actions import answered, question, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode


@pytest.fixture
def talked(served: PageNode, tab: Tab) -> Page:
    """A page that shows the run of a conversation in which a note was written."""
    page = tab(served)
    say(page, "write the note")
    question(page).get_by_role("button", name="Allow once").click()
    answered(page, "It is written.")
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Proof").click()
    page.locator(".runs a").first.click()
    expect(verdict(page)).to_contain_text("Verified in this browser: all")
    return page


def verdict(page: Page) -> Locator:
    return page.locator(".summary .verdict").first


def entries(page: Page) -> Locator:
    return page.get_by_role("listitem").and_(page.locator(".entry"))


def entry(page: Page, words: str) -> Locator:
    return entries(page).filter(has_text=words)


def marks(page: Page) -> list[str]:
    return [each.strip() for each in page.locator(".entry .seal .unseen").all_text_contents()]


def changed_on_disk(
    house: PageNode, kind: str, change: Callable[[bytes], bytes], column: str = "leaf", nth: int = 0
) -> None:
    """Somebody changes an entry of the journal behind its back."""
    with sqlite3.connect(house.journal) as database:
        seq, old = database.execute(
            f"SELECT seq, {column} FROM entry WHERE type = ? ORDER BY seq LIMIT 1 OFFSET ?", (kind, nth)
        ).fetchone()
        database.execute(f"UPDATE entry SET {column} = ? WHERE seq = ?", (change(old), seq))
    database.close()


@pytest.mark.requirement("nrv.proof")
def test_every_entry_is_verified_in_the_browser_and_opens_to_exactly_what_was_signed(talked: Page) -> None:
    page = talked
    assert set(marks(page)) == {"verified"}
    assert len(marks(page)) == page.locator(".entry").count() > 5
    expect(entry(page, "Allowed by ada")).to_be_visible()
    expect(entry(page, "About to run, approved by ada")).to_contain_text("notes:write_note")
    expect(entry(page, "Answered after")).to_contain_text("ok")
    # What it proves, what not, and the key.
    expect(page.get_by_text("No entry of the run is missing up to this checkpoint.")).to_be_visible()
    expect(page.get_by_text("That the runtime told the truth when it wrote.")).to_be_visible()
    expect(page.locator(".key-box")).to_contain_text("handrail proof checkpoint")

    line = entry(page, "About to run")
    line.locator("summary").first.click()
    expect(line).to_contain_text("plan.txt")
    expect(line).to_contain_text('"prev"')
    expect(line.locator(".facts .hash").first).to_have_text(re.compile("[0-9a-f]{64}"))

    page.get_by_role("link", name="All runs").click()
    search = page.get_by_label("Search runs")
    search.fill("nothing like it")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    search.fill("write_note")
    expect(page.locator(".runs li")).to_have_count(1)


Answer = dict[str, Any]


def on_the_way(page: Page, changes: list[Callable[[Answer], None]]) -> None:
    """Somebody between the node and the browser changes the answers to `desk.run`, each in the next of these ways."""

    def between(socket: WebSocketRoute) -> None:
        asked: list[str] = []
        node = socket.connect_to_server()

        def up(message: str | bytes) -> None:
            asked.append(json.loads(message).get("envelope", {}).get("capability", ""))
            node.send(message)

        def down(message: str | bytes) -> None:
            frame = json.loads(message)
            if asked[0] == "desk.run" and frame.get("event") == "answer":
                changes.pop(0)(frame["data"])
            socket.send(json.dumps(frame))

        socket.on_message(up)
        node.on_message(down)

    page.route_web_socket(re.compile("/bus/v1/call"), between)


def dropped(answer: Answer) -> None:
    del answer["entries"][2]
    answer["count"] -= 1


def swapped(answer: Answer) -> None:
    rows = answer["entries"]
    rows[1], rows[2] = rows[2], rows[1]


def cut(answer: Answer) -> None:
    answer["entries"].pop()
    answer["count"] -= 1


def resigned(answer: Answer) -> None:
    answer["checkpoint"] = answer["checkpoint"].replace("\nhandrail-run", "\nsmth-else\nhandrail-run")


@pytest.mark.requirement("nrv.proof")
def test_what_was_changed_on_the_way_or_on_disk_is_named(talked: Page, served: PageNode) -> None:
    ways: list[tuple[Callable[[Answer], None], str]] = [
        (dropped, "Entry 3: entry 2 is missing"),
        (swapped, "Entry 2: entry 1 is missing"),
        (cut, "is missing"),
        (resigned, "the signature is wrong"),
    ]
    on_the_way(talked, [*(change for change, _ in ways), lambda answer: None])
    for _, says in ways:
        talked.reload()
        expect(talked.locator(".summary .problems")).to_contain_text(says)
        expect(verdict(talked)).to_contain_text("Not verified")

    changed_on_disk(served, "confirmation.answered", lambda leaf: leaf.replace(b'"by":"ada"', b'"by":"bob"'))
    changed_on_disk(served, "call.intended", lambda data: data.replace(b"plan.txt", b"plot.txt"), "data")
    talked.reload()
    bad = entry(talked, "Allowed by bob")
    expect(bad.locator(".problem")).to_contain_text("it is not in the record that was signed")
    expect(entry(talked, "About to run").locator(".problem")).to_contain_text("its body was changed")
    expect(verdict(talked)).to_contain_text(re.compile(r"Not verified: 2 of \d+ entries wrong"))
    assert marks(talked).count("wrong") == 2
    talked.get_by_role("button", name=re.compile("its body was changed")).click()
    expect(entry(talked, "About to run").locator("summary").first).to_be_focused()


LARGE = 2**53 + 1
"""A browser would make another number of it."""


@tool
def weigh(grams: int, note: str = "") -> str:
    """Weigh something."""
    return "weighed"


@pytest.fixture
def long_run(house: PageNode) -> Iterator[PageNode]:
    """It has a run of three pages, with a number that is very large, a body that is long and one that was erased."""

    async def written() -> None:
        async with (
            await SqliteJournal.open(house.journal) as journal,
            Executor([weigh], journal=journal) as executor,
        ):
            first: list[dict[str, Any]] = [{"grams": LARGE}, {"grams": 1, "note": "heavy " * INLINE}, {"grams": 2}]
            for at, given in enumerate([*first, *({"grams": at} for at in range(102))]):
                await executor.invoke(ToolCall(f"call_{at}", "weigh", given), Context(run="run_long"))
            await executor.finish("run_long")

    house.journal.parent.mkdir()
    asyncio.run(written())
    erase(house.journal, call_id="call_2")
    with house.serve():
        yield house


def test_a_run_of_several_pages_is_checked_as_a_whole_and_what_is_fetched_later_counts_too(
    long_run: PageNode, tab: Tab
) -> None:
    page = tab(long_run, "#/proof")
    page.get_by_role("link", name="weigh").click()
    expect(verdict(page)).to_have_text("Verified in this browser: 100 of 212 entries")
    expect(page.get_by_text("No entry is missing up to the last one that is shown.")).to_be_visible()
    page.get_by_role("button", name="Check all 212").click()
    expect(verdict(page)).to_have_text("Verified in this browser: all 212 entries")
    assert len(marks(page)) == 212 and set(marks(page)) == {"verified"}
    expect(page.locator(".summary")).to_contain_text("2 arguments and results were erased")
    expect(page.locator(".summary")).to_contain_text("1 long argument or result was not fetched")

    def fetched(at: int) -> Locator:
        line = entries(page).nth(at)
        line.locator("summary").first.click()
        return line

    expect(fetched(1)).to_contain_text(f'"grams": {LARGE}')
    expect(fetched(5)).to_contain_text("It was erased.")
    fetched(3).get_by_role("button", name="Fetch and check").click()
    expect(entries(page).nth(3).get_by_role("status")).to_have_text("verified")
    expect(page.locator(".summary")).not_to_contain_text("not fetched")

    changed_on_disk(long_run, "call.intended", lambda data: data.replace(b"heavy", b"light"), "data", nth=1)
    on_the_way(page, [lambda answer: None, resigned])
    page.reload()
    expect(verdict(page)).to_have_text("Verified in this browser: 100 of 212 entries")
    fetched(3).get_by_role("button", name="Fetch and check").click()
    expect(entries(page).nth(3).locator(".problem").first).to_contain_text("its body was changed")
    expect(verdict(page)).to_have_text("Not verified: 1 of 212 entries wrong")
    page.get_by_role("button", name="Show and check more").click()
    expect(page.locator(".summary .problems")).to_contain_text("came under another checkpoint than the first")


def test_a_key_that_the_person_trusts_is_remembered_and_another_one_is_refused(talked: Page, served: PageNode) -> None:
    talked.get_by_role("button", name="They are the same: trust this key here").click()
    expect(talked.locator(".key-box")).to_contain_text("You compared this key on")
    expect(talked.get_by_role("heading", level=1)).to_be_focused()
    expect(verdict(talked)).to_contain_text("Verified in this browser: all")
    talked.evaluate(
        """() => {
          const kept = JSON.parse(localStorage["handrail.trusted-keys"]);
          for (const each of Object.values(kept)) {
            each.key = "handrail/journal+c74f20a3+ARpxTbKnvSROsaHXLoPs6Zr5Ot6bqeyi3vOy7kWxPStj";
          }
          localStorage["handrail.trusted-keys"] = JSON.stringify(kept);
        }"""
    )
    talked.reload()
    expect(talked.locator(".key-box")).to_contain_text("another key than the one you trust")
    expect(verdict(talked)).to_contain_text("Not verified")
    assert "verified" not in marks(talked)


def test_the_bundle_and_the_receipt_that_are_saved_are_good_elsewhere_too(talked: Page, tmp_path: Path) -> None:
    with talked.expect_download() as saved:
        talked.get_by_role("button", name="Export proof bundle").click()
    archive = tmp_path / saved.value.suggested_filename
    saved.value.save_as(archive)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "bundle")
    (folder,) = (tmp_path / "bundle").iterdir()
    report = check(folder)
    assert not report.problems
    assert report.entries == len(marks(talked))

    line = entry(talked, "Answered after")
    line.locator("summary").first.click()
    with talked.expect_download() as saved:
        line.get_by_role("button", name="Receipt of this call").click()
    file = tmp_path / "receipt.json"
    saved.value.save_as(file)
    receipt = Receipt.from_json(file.read_bytes())
    receipt.verify(Verifier.parse(receipt.verifier_key))

    talked.get_by_role("link", name="All runs").click()
    box = talked.get_by_role("region", name="Check a receipt")
    box.locator("input[type=file]").set_input_files(file)
    expect(box).to_contain_text("The receipt is valid")
    expect(box).to_contain_text("notes:write_note: ok")
    expect(box).to_contain_text("The result in it is the one that was recorded.")

    drop(talked, file.read_text().replace("wrote 4", "wrote 5"))
    expect(box).to_contain_text("The receipt is not valid")
    expect(box).to_contain_text("its body was changed")
    drop(talked, '{"no": "receipt"}')
    expect(box).to_contain_text("this is not a receipt")


def drop(page: Page, text: str) -> None:
    """A file onto the page."""
    given = page.evaluate_handle(
        """(text) => {
          const given = new DataTransfer();
          given.items.add(new File([text], "receipt.json"));
          return given;
        }""",
        text,
    )
    page.dispatch_event(".proof", "drop", {"dataTransfer": given})


def test_a_browser_that_cannot_check_says_so_and_claims_nothing(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/tools/odd:huge")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".trial-answer article")).to_have_attribute("data-state", "ok")
    page.add_init_script(
        """if (localStorage.plain) Object.defineProperty(crypto, "subtle", { value: undefined });
        else SubtleCrypto.prototype.importKey = () => Promise.reject(new DOMException("", "NotSupportedError"));
        """
    )
    page.evaluate("location.hash = '#/proof'")
    page.reload()
    page.get_by_role("link", name="odd:huge").click()
    expect(verdict(page)).to_have_text("This browser cannot check")
    expect(page.locator(".summary")).to_contain_text("This browser does not support Ed25519 signatures.")
    page.evaluate("localStorage.plain = 1")
    page.reload()
    expect(page.locator(".summary")).to_contain_text("only to pages over https or from this machine")
    expect(page.locator(".summary")).to_contain_text("handrail proof verify")
    line = entry(page, "Answered after")
    line.locator("summary").first.click()
    line.get_by_role("button", name="Fetch and check").click()
    expect(line.get_by_role("status")).to_have_text("not verifiable here")
    assert set(marks(page)) == {"not verifiable here"}
