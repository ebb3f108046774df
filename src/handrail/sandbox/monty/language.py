"""What Monty's Python does not have, as found by trying version 1.4.0. A test tries it all again."""

from __future__ import annotations

MISSING = """\
This Python is a subset. It has no class inheritance, no `yield`, no `del`, no `@property`, `@classmethod` or \
`@staticmethod`, no `except*`, no `from x import *`; exceptions take one string; a generator expression \
builds its whole list at once.
Modules: asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, \
itertools, json, math, random, re, time, tomllib, typing, unicodedata. No other ones, no packages, no files, no network.
These builtins are missing: callable, compile, dir, globals, input, vars, __import__, bytearray, memoryview.
Call functions that ask outside (llm_query and the like) from plain code, loops and comprehensions; they cannot be \
called inside map(), filter(), sorted(key=…) or methods like __getitem__."""
"""For the prompt of a model that writes cells: four lines."""
