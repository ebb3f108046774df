"""Arguments as elements, `<parameter=K>V</parameter>` and its kin: one row for each way to write them.

A value ends with its closing mark only where another element, or nothing, follows: it
may hold the mark. Numbers and objects stand between the marks as JSON; what is text
and what is JSON is for the tool's schema to say.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct


class ElementStyle(Struct, frozen=True):
    opens: str
    """The opening mark of an element; in some formats the key stands in it."""
    key: str
    """A pattern of what stands between that and the value. Its first group is the key."""
    closes: str
    value: str = ""
    """The opening mark of the value, if the key has an element of its own."""


@cache
def element_pattern(elements: ElementStyle) -> re.Pattern[str]:
    """Finds each element: its first group is the key, its last the value, one between them the other attributes."""
    again, closes = re.escape(elements.opens), re.escape(elements.closes)
    unclosed = "" if elements.value else f"(?={again})|"
    return re.compile(f"{again}{elements.key}(.*?)(?:{closes}(?=\\s*+(?:{again}|\\Z))|{unclosed}\\Z)", re.DOTALL)


_NAMED = r"\s*name=\"([^\"]*)\"([^>]*)>"

FUNCTION = ElementStyle("<parameter=", r"([^>]*)>", "</parameter>")
INVOKE = ElementStyle("<parameter ", _NAMED, "</parameter>")
STEP = ElementStyle("<steptml:parameter ", _NAMED, "</steptml:parameter>")
DSML = ElementStyle("<｜DSML｜parameter ", _NAMED, "</｜DSML｜parameter>")
ARG = ElementStyle("<arg_key>", r"((?:(?!<arg_key>).)*?)</arg_key>\s*<arg_value>", "</arg_value>", "<arg_value>")
ARG_OPEN = ElementStyle(
    "<arg_key:opensource>",
    r"((?:(?!<arg_key).)*?)</arg_key:opensource>\s*<arg_value:opensource>",
    "</arg_value:opensource>",
    "<arg_value:opensource>",
)
"""Hunyuan's, whose published tokens have a suffix."""
_ALL = (FUNCTION, INVOKE, STEP, DSML, ARG, ARG_OPEN)
VALUES = {each.value or each.opens: each.closes for each in _ALL}
"""How a value begins, and what stands last where it has ended."""
PAIRS = {each.opens: each.closes for each in _ALL}
"""How an element begins and ends."""
