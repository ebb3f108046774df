"""The Proof view: what ran, checked by the browser itself, which believes the node nothing."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from handrail.proof.audit import Receipt
from handrail.proof.keys import Verifier
from handrail.proof.verifier import check
from tests.page.conftest import Tab
from tests.page.scene import House
from tests.page.talking import answered, question, say


@pytest.fixture
def talked(served: House, tab: Tab) -> Page:
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


def changed_on_disk(house: House, kind: str, change: Callable[[bytes], bytes], column: str = "leaf") -> None:
    """Somebody changes an entry of the journal behind its back."""
    with sqlite3.connect(house.journal) as database:
        seq, old = database.execute(
            f"SELECT seq, {column} FROM entry WHERE type = ? ORDER BY seq LIMIT 1", (kind,)
        ).fetchone()
        database.execute(f"UPDATE entry SET {column} = ? WHERE seq = ?", (change(old), seq))
    database.close()


@pytest.mark.requirement("nrv.proof")
def test_every_entry_is_verified_in_the_browser_and_opens_to_exactly_what_was_signed(talked: Page) -> None:
    page = talked
    assert set(marks(page)) == {"verified"}
    assert len(marks(page)) == page.locator(".entry").count() > 5
    expect(entry(page, "Allowed by ada")).to_be_visible()
    expect(entry(page, "About to run, by the word of ada")).to_contain_text("notes:write_note")
    expect(entry(page, "Answered after")).to_contain_text("ok")
    # What it proves, what not, and the key.
    expect(page.get_by_text("None of the run is missing up to this checkpoint.")).to_be_visible()
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
    expect(page.get_by_text("No run fits.")).to_be_visible()
    search.fill("write_note")
    expect(page.locator(".runs li")).to_have_count(1)


@pytest.mark.requirement("nrv.proof")
def test_an_entry_and_a_body_that_were_changed_on_disk_are_named(talked: Page, served: House) -> None:
    changed_on_disk(served, "confirmation.answered", lambda leaf: leaf.replace(b'"by":"ada"', b'"by":"bob"'))
    changed_on_disk(served, "call.intended", lambda data: data.replace(b"plan.txt", b"plot.txt"), "data")
    talked.reload()
    bad = entry(talked, "Allowed by bob")
    expect(bad.locator(".problem")).to_contain_text("it is not in the record that was signed")
    expect(entry(talked, "About to run").locator(".problem")).to_contain_text("its body was changed")
    expect(verdict(talked)).to_contain_text(re.compile(r"Not verified: 2 of \d+ entries wrong"))
    assert marks(talked).count("wrong") == 2


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


def test_what_was_changed_on_the_way_is_found(talked: Page) -> None:
    ways: list[tuple[Callable[[Answer], None], str]] = [
        (dropped, "Entry 3: entry 2 is missing"),
        (swapped, "Entry 2: entry 1 is missing"),
        (cut, "is missing"),
        (resigned, "the signature is wrong"),
    ]
    on_the_way(talked, [change for change, _ in ways])
    for _, says in ways:
        talked.reload()
        expect(talked.locator(".summary .problems")).to_contain_text(says)
        expect(verdict(talked)).to_contain_text("Not verified")


def test_a_key_that_the_person_trusts_is_remembered_and_another_one_is_refused(talked: Page, served: House) -> None:
    talked.get_by_role("button", name="It is the same: trust it here").click()
    expect(talked.locator(".key-box")).to_contain_text("You compared this key on")
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
    expect(box).to_contain_text("The receipt is good")
    expect(box).to_contain_text("notes:write_note: ok")
    expect(box).to_contain_text("The result in it is the one that was recorded.")

    drop(talked, file.read_text().replace("wrote 4", "wrote 5"))
    expect(box).to_contain_text("The receipt is not good")
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


def test_a_browser_that_cannot_check_says_so(served: House, tab: Tab) -> None:
    page = tab(served, "#/tools/notes:read_note")
    page.get_by_label("path").fill("shopping.txt")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".trial-answer")).to_contain_text("bread")
    page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
    page.evaluate("location.hash = '#/proof'")
    page.reload()
    page.locator(".runs a").first.click()
    expect(verdict(page)).to_have_text("This browser cannot check")
    expect(page.locator(".summary")).to_contain_text("handrail proof verify")
    expect(page.locator(".entry").first).to_be_visible()
    assert set(marks(page)) == {"not verifiable here"}
