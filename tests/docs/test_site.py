"""The site: every page is in its navigation, and every public name is in the reference, with a description.

What needs the site's generator is in `test_site_build.py`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.public_surface import public_modules, public_names

PACKAGES = ("handrail", "handrail.mcp", "handrail.rlm", "handrail.app")
_SHOWN = re.compile(r"^::: (\S+)$", re.MULTILINE)
_HEADED = re.compile(r"^::: (\S+)\n    options: \{ heading: ([\w.]+), toc_label: \w+(?:, \w+: \w+)* \}$", re.MULTILINE)


def navigation() -> list[str]:
    """The pages that the navigation of the site names; only the generator itself can read all of its settings."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^ *- .*?(\S+\.md)$", settings.partition("\nnav:\n")[2], re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))

    assert sorted(navigation()) == pages


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("structured output", "howto/typed-answers.md"),
        ("FastAPI", "howto/web-applications.md"),
        ("approval", "howto/approve.md"),
    ],
)
def test_a_search_for_these_words_finds_the_title_of_their_guide(words: str, page: str) -> None:
    """The search of the site puts a match in a title before all others."""
    titles = {
        path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8").partition("\n")[0]
        for path in (ROOT / "docs" / "howto").glob("*.md")
    }

    assert [name for name, title in titles.items() if words in title] == [page]


def shown() -> list[str]:
    """The names that the pages of the reference show."""
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return [name for page in pages for name in _SHOWN.findall(page.read_text(encoding="utf-8"))]


def found(name: str) -> Any:
    """A module, or what is in one."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, inside = name.rpartition(".")
        return getattr(importlib.import_module(module), inside)


def test_what_the_reference_shows_exists_and_stands_there_once() -> None:
    names = shown()

    assert len(set(names)) == len(names)
    assert [name for name in names if name.rpartition(".")[0] in names] == [], "the module is shown whole elsewhere"
    for name in names:
        found(name)


def test_what_something_in_the_reference_raises_is_a_section() -> None:
    """On the first line of a docstring the generator takes it for a sentence."""
    plain = [
        f"{name}.{inside}"
        for name in shown()
        for inside, value in _inside(found(name))
        if re.match(r"Raises:\n\S", inspect.getdoc(value) or "")
    ]

    assert plain == []


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """What is public in a module or a class, and in the classes of that module."""
    for name, each in vars(value).items() if inspect.ismodule(value) or inspect.isclass(value) else ():
        imported = inspect.ismodule(value) and getattr(each, "__module__", value.__name__) != value.__name__
        if not imported and (name == "__init__" or not name.startswith("_")):
            yield name, each
            if inspect.isclass(each) and inspect.ismodule(value):
                yield from _inside(each)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference_and_says_what_it_is(package: str) -> None:
    names = set(shown())
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in module.__all__}
    absent = [name for name, value in public.items() if not names & {home := _home(value, name), f"{home}.{name}"}]
    silent = [name for name, value in public.items() if not _documented(value, name)]

    assert (absent, silent) == ([], [])


def test_the_reference_heads_a_public_name_with_the_one_that_is_imported() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    imported = {name: module for module in reversed(public_modules()) for name in public_names(module)}
    heads = dict(_HEADED.findall(text))

    shown_alone = [name for name in shown() if name.rpartition(".")[2] in imported]

    assert heads == {name: f"{imported[last]}.{last}" for name in shown_alone if (last := name.rpartition(".")[2])}


def _home(value: Any, name: str) -> str:
    """The module that has a name: for a value that is no class or function, the one under which it is shown."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__module__
    return next(shown_name.rpartition(".")[0] for shown_name in shown() if shown_name.endswith(f".{name}"))


def _documented(value: Any, name: str) -> bool:
    if inspect.isclass(value):
        return bool(value.__dict__.get("__doc__"))
    if inspect.isfunction(value):
        return bool(value.__doc__)
    body = ast.parse(inspect.getsource(importlib.import_module(_home(value, name)))).body
    for statement, after in pairwise(body):
        match statement, after:
            case ast.Assign(targets=[ast.Name(id=named)]), ast.Expr(value=ast.Constant(value=str())) if named == name:
                return True
    return False
