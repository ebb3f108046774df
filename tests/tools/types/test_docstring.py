"""Docstrings in three styles say the same; garbage says something and never raises."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.tools.types.schema import ParsedDocstring, read_docstring

GOOGLE = """Get the weather
    for a place.

    It asks the service
    that is nearest.

    Args:
        location: City and
            country.
        unit (str): Celsius or not.
        **more: The rest.

    Returns:
        dict: What the sky
            does.

    Raises:
        ValueError: No such place.
    """
NUMPY = """Get the weather
    for a place.

    It asks the service
    that is nearest.

    Parameters
    ----------
    location : str
        City and
        country.
    unit : str
        Celsius or not.
    **more
        The rest.

    Returns
    -------
    dict
        What the sky
        does.
    """
SPHINX = """Get the weather
    for a place.

    It asks the service
    that is nearest.

    :param str location: City and
        country.
    :param unit: Celsius or not.
    :param more: The rest.
    :returns: What the sky
        does.
    """


@pytest.mark.requirement("abstractllm.from-function")
@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same_words(text: str) -> None:
    assert read_docstring(text) == ParsedDocstring(
        "Get the weather for a place.\n\nIt asks the service that is nearest.",
        {"location": "City and country.", "unit": "Celsius or not.", "more": "The rest."},
        "What the sky does.",
    )


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) == ParsedDocstring()


def test_a_list_and_an_indented_block_keep_their_lines() -> None:
    text = "Do one of:\n\n- this\n- that\n\n    code()\n    more()\n\nand\nstop."
    assert read_docstring(text).description == "Do one of:\n\n- this\n- that\n\n    code()\n    more()\n\nand stop."


def test_two_numpy_parameters_in_one_line_share_their_words() -> None:
    text = "Add.\n\nParameters\n----------\nx, y : int\n    A number.\n"
    assert read_docstring(text).parameters == {"x": "A number.", "y": "A number."}


_PIECES = st.sampled_from(
    ["Args:\n", "    x: y\n", ":param", ":param x:", "Returns\n-------\n", "\n\n", "  ", ":", "@a", "word"]
)


@given(st.one_of(st.text(), st.lists(_PIECES).map("".join)))
def test_no_text_is_refused(text: str) -> None:
    read = read_docstring(text)
    assert read.description == read.description.strip()
