"""What a service adds to a reply, in the terminal program: footnotes, calls of the service, files that can be saved."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from handrail.core.messages import AssistantMessage, Citation, Conversation, Media, ServiceCall
from handrail.desk.tui.dialogs import LineDialog, PickDialog
from tests.desk.tui.scripted_terminal import HOSTILE, terminal
from tests.desk.tui.test_chat import CONTROLS

SAID = "Use 🏛 `a b` **now**! It is old."
PICTURE = b"\x89PNG" + bytes(2_000)


def talk(**extras: object) -> Conversation:
    reply = AssistantMessage(SAID, 1, "demo", **extras)  # type: ignore[arg-type]
    return Conversation().say("how is it?").add(reply)


async def test_the_numbers_of_sources_stand_in_the_text_and_the_sources_below_it(folder: Path) -> None:
    cited = (
        Citation(url="https://geo.example/lisbon", title="Hills", end=SAID.index("!") + 1),
        Citation(url="https://old.example/", title="Old cities", quote="older than Rome", end=len(SAID) - 1),
    )
    async with terminal(folder, talk(citations=cited), size=(100, 30)) as person:
        await person.says("a b now![1] It is old[2].")
        await person.says("[1] Hills  https://geo.example/lisbon")
        await person.says("“older than Rome”")


async def test_a_call_of_the_service_is_a_line_that_says_who_ran_it(folder: Path) -> None:
    made = (
        ServiceCall(id="1", name="web_search", arguments={"query": "hills"}, result={"hits": 3}),
        ServiceCall(id="2", name="code_interpreter", failed=True),
    )
    async with terminal(folder, talk(service_calls=made), size=(100, 30)) as person:
        await person.says('⇢ web_search query="hills" · run by the service, done')
        await person.says("⇢ code_interpreter · run by the service, failed")


async def test_a_call_of_the_service_is_seen_as_it_comes_and_stays(folder: Path) -> None:
    reply = '\n[[reply]]\nwhen = "tide"\ntext = "High."\nservice_calls = [{ id = "1", name = "web_search" }]\n'
    with (folder / "script.toml").open("a", encoding="utf-8") as script:
        script.write(reply)
    async with terminal(folder) as person:
        await person.say("the tide?")
        await person.says("High.")
        await person.idle()
        await person.until(lambda: len(person.app.chat.query(".service-call")) == 1)


async def test_a_picture_is_named_and_a_key_saves_it(folder: Path) -> None:
    made = (Media(media_type="image/png", data=PICTURE, name="hills.png"),)
    async with terminal(folder, talk(media=made), size=(100, 30)) as person:
        await person.says("hills.png (image/png, 2,004 bytes), Ctrl+S saves it")
        await person.press("ctrl+s")
        await person.at(PickDialog)
        await person.press("enter")
        await person.at(LineDialog)
        path = person.app.screen.query_one(Input)
        assert path.value == "hills.png"
        path.value = str(folder / "kept.png")
        await person.press("enter")
        await person.until(lambda: (folder / "kept.png").exists())
        assert (folder / "kept.png").read_bytes() == PICTURE


async def test_sources_names_and_results_cannot_steer_the_terminal(folder: Path) -> None:
    hostile = talk(
        citations=(Citation(url=f"https://x.example/{HOSTILE}", title=HOSTILE, quote=HOSTILE, end=3),),
        service_calls=(ServiceCall(id="1", name=HOSTILE, arguments={HOSTILE: HOSTILE}, result=HOSTILE),),
        media=(Media(media_type=HOSTILE, data=b"x", name=HOSTILE),),
    )
    async with terminal(folder, hostile, size=(120, 40)) as person:
        await person.says("run by the service")
        await person.says("[1] <script>")
        assert not [each for each in CONTROLS if each in person.screen]
        assert "[red]no" in person.screen
