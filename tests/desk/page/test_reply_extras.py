"""What a service adds to a reply, as a person sees it on the page: sources, pictures, files, calls that it ran."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from playwright.sync_api import Page, expect

from tests.desk.page.chat_actions import answered, replies, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import HOSTILE, PageNode

SAID = "Lisbon lies on hills. It has been a city for 3,000 years 🏛."
CITED: list[dict[str, Any]] = [
    {"url": "https://geo.example/lisbon", "title": "Hills of Lisbon", "start": 0, "end": 20},
    {
        "url": "https://old.example/",
        "title": "Old cities",
        "quote": "older than Rome",
        "start": 22,
        "end": len(SAID) - 1,
    },
    {"url": "https://geo.example/lisbon", "title": "Hills of Lisbon", "start": 22, "end": len(SAID) - 1},
]


def png(width: int = 64, height: int = 48) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + bytes((40, 120, 200)) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def media(media_type: str, data: bytes, name: str = "") -> dict[str, str]:
    return {"media_type": media_type, "data": base64.b64encode(data).decode(), "name": name}


def asked(house: PageNode, tab: Tab, reply: dict[str, Any]) -> Page:
    """A page on which the model gave this reply."""
    house.reply("please", reply)
    page = tab(house)
    say(page, "please")
    answered(page, "scripted")
    return page


def test_a_cited_sentence_ends_in_the_number_of_its_source_and_the_sources_stand_below(
    served: PageNode, tab: Tab
) -> None:
    page = asked(served, tab, {"text": SAID, "citations": CITED})
    reply = replies(page).last
    expect(reply.locator(".prose")).to_have_text("Lisbon lies on hills[1]. It has been a city for 3,000 years 🏛[1][2].")
    sources = reply.get_by_role("region", name="Sources").get_by_role("listitem")
    expect(sources).to_have_count(2)
    expect(sources.first).to_contain_text("Hills of Lisbon geo.example")
    expect(sources.last).to_contain_text("older than Rome")
    link = sources.first.get_by_role("link", name="Hills of Lisbon")
    expect(link).to_have_attribute("href", "https://geo.example/lisbon")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(link).to_have_attribute("target", "_blank")
    reply.locator("sup.cite", has_text="[2]").click()
    expect(sources.last.get_by_role("link")).to_be_focused()


def test_the_sources_are_still_there_when_the_page_is_opened_again(served: PageNode, tab: Tab) -> None:
    page = asked(served, tab, {"text": SAID, "citations": CITED})
    where = page.url.partition("#")[2]
    page.close()
    served.restart()
    page = tab(served, route=f"#{where}")
    expect(replies(page).last.get_by_role("region", name="Sources").get_by_role("listitem")).to_have_count(2)


def test_a_hostile_source_is_text_and_no_link(served: PageNode, tab: Tab) -> None:
    cited = [
        {"url": "javascript:window.stolen=1", "title": HOSTILE, "quote": HOSTILE, "end": 5},
        {"url": "data:text/html,<script>1</script>", "end": 5},
        {"url": "https://bank.example@evil.example/", "title": "https://bank.example", "end": 5},
        {"url": "java\nscript:alert(1)", "title": "twisted", "end": 5},
    ]
    page = asked(served, tab, {"text": "Trust me.", "citations": cited})
    sources = replies(page).last.get_by_role("region", name="Sources")
    expect(sources.get_by_role("listitem")).to_have_count(4)
    expect(sources.get_by_role("link")).to_have_count(1)
    expect(sources.get_by_role("listitem").nth(2)).to_contain_text("evil.example")
    expect(sources).to_contain_text("<script>window.stolen = 1</script>")
    expect(sources).to_contain_text("\\u202egpj.exe")
    assert sources.locator("script, img").count() == 0
    assert page.evaluate("window.stolen") is None


def test_a_model_cannot_write_a_number_of_a_source_itself(served: PageNode, tab: Tab) -> None:
    page = asked(served, tab, {"text": "Proven\ufdd01\ufdd1 and \ufdd0abc1\ufdd1.", "citations": CITED[:1]})
    expect(replies(page).last.locator("sup.cite")).to_have_count(1)
    expect(replies(page).last.locator(".prose")).to_contain_text("\\ufdd01\\ufdd1")


def test_a_picture_that_the_model_made_is_drawn_within_bounds_and_can_be_saved(served: PageNode, tab: Tab) -> None:
    drawn = png(3000, 2000)
    page = asked(served, tab, {"text": "Here it is.", "media": [media("image/png", drawn, "a cat.png")]})
    made = replies(page).last.get_by_role("list", name="Pictures and files that the model made")
    picture = made.get_by_role("img", name="a cat.png")
    expect(picture).to_be_visible()
    page.wait_for_function("document.querySelector('.made img').naturalWidth === 3000")
    size = picture.bounding_box()
    assert size is not None
    assert 200 < size["width"] <= 560 and size["height"] <= 460
    with page.expect_download() as saved:
        made.get_by_role("button").click()
    assert saved.value.suggested_filename == "a cat.png"
    assert saved.value.path().read_bytes() == drawn


def test_a_reply_that_is_only_a_picture_is_shown(served: PageNode, tab: Tab) -> None:
    served.reply("please", {"media": [media("image/png", png())]})
    page = tab(served)
    say(page, "please")
    expect(replies(page).last.get_by_role("img")).to_be_visible()


def test_a_drawing_that_could_run_something_is_a_file_and_never_part_of_the_page(served: PageNode, tab: Tab) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.stolen=1'><script>window.stolen=2</script></svg>"
    files = [
        media("image/svg+xml", svg, "../../drawing.svg"),
        media("image/png", svg, "not-a.png"),
        media("text/html", b"<script>window.stolen=3</script>", "page.html"),
    ]
    page = asked(served, tab, {"text": "Look.", "media": files})
    made = replies(page).last.get_by_role("list", name="Pictures and files that the model made")
    expect(made.get_by_role("button")).to_have_count(3)
    expect(made.locator("img")).to_have_count(0)
    with page.expect_download() as saved:
        made.get_by_role("button").first.click()
    assert saved.value.suggested_filename == "drawing.svg"
    assert page.evaluate("window.stolen") is None


def test_a_picture_elsewhere_is_a_link_and_nothing_is_fetched(served: PageNode, tab: Tab) -> None:
    elsewhere = {"media_type": "image/png", "url": "https://pictures.example/cat.png"}
    page = asked(served, tab, {"text": "There.", "media": [elsewhere]})
    link = replies(page).last.get_by_role("link", name="https://pictures.example/cat.png")
    expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_a_call_of_the_service_is_a_card_of_its_own_kind_with_its_result_folded(served: PageNode, tab: Tab) -> None:
    made = {
        "id": "ws_1",
        "name": "web_search",
        "arguments": {"query": "hills of Lisbon", "token": "sk-ant-api03-" + "a" * 40},
        "result": {"hits": [{"title": "Hills <b>of</b> Lisbon", "n": 2**60}]},
    }
    failed = {"id": "ci_1", "name": "code_interpreter", "failed": True}
    page = asked(served, tab, {"text": "Found it.", "service_calls": [made, failed]})
    cards = page.locator("article.said-by-model .service-card")
    expect(cards).to_have_count(2)
    search = page.get_by_role("article", name="web_search: run by the service, done")
    expect(search).to_contain_text("query: hills of Lisbon")
    expect(search).to_contain_text("run by the service")
    expect(search.get_by_text("1152921504606846976")).to_be_hidden()
    search.locator("summary").click()
    expect(search.locator(".card-body")).to_contain_text("1152921504606846976")
    expect(search.locator(".card-body")).to_contain_text("Hills <b>of</b> Lisbon")
    expect(search.locator(".card-body")).to_contain_text("handrail did not run it")
    assert "sk-ant-api03-aaaa" not in page.content()
    other = page.get_by_role("article", name="code_interpreter: run by the service, failed")
    other.locator("summary").click()
    expect(other).to_contain_text("The service does not show its result.")


def test_a_call_of_the_service_is_seen_while_the_reply_is_still_written(served: PageNode, tab: Tab) -> None:
    made = {"id": "ws_1", "name": "web_search", "arguments": {"query": "tide"}}
    job = {"name": "long_job", "arguments": {"steps": 1}}
    served.reply("please", {"text": "Looking.", "service_calls": [made], "calls": [job]}, "Done.")
    page = tab(served)
    say(page, "please")
    served.gate.wait()
    expect(page.locator(".service-card")).to_have_count(1)
    served.gate.step()
    answered(page, "Done.")
    expect(page.locator(".service-card")).to_have_count(1)


def test_what_a_reply_brought_before_it_broke_off_stays(served: PageNode, tab: Tab) -> None:
    made = {"id": "ws_1", "name": "web_search", "arguments": {"query": "tide"}}
    served.reply("please", {"text": "Half a w", "service_calls": [made], "citations": CITED[:1], "breaks": "gone"})
    page = tab(served)
    say(page, "please")
    expect(page.get_by_role("region", name="Something failed")).to_be_visible()
    expect(page.locator("article.said-by-model .service-card")).to_have_count(1)
    expect(page.get_by_role("region", name="Sources")).to_be_visible()
