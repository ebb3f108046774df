"""Every example on the page `docs/tools-from-files.md` works, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handrail.core.errors import ConfigError, InvalidArguments
from handrail.tools.files.build import _KEYS
from handrail.tools.files.http_handler import HttpHandler
from handrail.tools.files.load import load_ensemble, load_tool
from tests.tools.files.tool_file_calls import call, written

PAGE = (Path(__file__).parents[3] / "docs" / "tools-from-files.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, each under the name in its first line."""
    for language, text in EXAMPLES:
        if language == "toml":
            written(tmp_path, text.partition("\n")[0].removeprefix("# "), text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_programs_of_the_page_run_on_its_files(folder: Path) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for language, text in EXAMPLES:
        if language == "python":
            exec(compile(text, "tools-from-files.md", "exec"), names)


async def test_the_tools_of_the_page_do_what_it_says(folder: Path) -> None:
    text = load_ensemble(folder / "tools" / "text.toml").all_tools
    assert (await call(text["count_words"], text="one two three")).strip() == "3"
    assert await call(text["shorten"], text="one two three", width=9) == "one [...]"
    search = load_tool(folder / "tools" / "search.toml")
    written(folder, "tools/notes.txt", "milk\nbread\nmilk\n")
    assert await call(search, pattern="milk", files=["notes.txt"], limit=1) == "1:milk\n"
    assert await call(search, pattern="-v", files=["notes.txt"]) == ""
    with pytest.raises(InvalidArguments):
        await call(search, pattern="milk", files=["-r"])


def test_the_requests_of_the_page_are_the_ones_meant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "abc")
    forecast, note = (load_tool(folder / "tools" / f"{name}.toml").handler for name in ("weather", "note"))
    assert isinstance(forecast, HttpHandler)
    assert isinstance(note, HttpHandler)
    asked = forecast.request({"city": "São Paulo", "days": 3})
    assert asked.url == "https://weather.example/v1/cities/S%C3%A3o%20Paulo/forecast?days=3&units=metric"
    assert asked.headers == {"Authorization": "Bearer abc"}
    assert note.request({"text": "hi", "tags": ["a"]}).body == b'{"text":"hi","tags":["a"],"from":"handrail"}'


def test_the_mistake_on_the_page_is_reported_as_shown(folder: Path) -> None:
    path = folder / "tools" / "text.toml"
    path.write_text(path.read_text().replace("timeout = 30", "timeuot = 30"))
    with pytest.raises(ConfigError) as caught:
        load_ensemble(Path("tools/text.toml"))
    assert str(caught.value) in PAGE


def test_the_page_names_every_key() -> None:
    assert [key for key in _KEYS if f"`{key}`" not in PAGE and f"`{key} =" not in PAGE] == []
