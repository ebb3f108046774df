"""What models give the tools of `io`: paths, patterns, addresses, pages, queries.

The laws: a call gives what its schema promises, or a `ToolError`; nothing outside the roots is read or changed;
no query changes a database, and none reaches out of it; and no address that is not public is asked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.called import called
from fuzz.law import Target, outcome, scratch
from fuzz.mutate import texts, values
from handrail.core.errors import ToolError
from handrail.library.io import IoLimits, IoSettings, io_ensemble
from handrail.library.io.addresses import AddressGatekeeper, reserved_range
from handrail.library.io.html_text import html_to_text
from handrail.library.io.patterns import IgnoreRules, LinearPattern, glob_pattern
from handrail.library.io.sqlite import sqlite_tools

HIDDEN = "the words that are outside"


# ── files ────────────────────────────────────────────────────────────────────────────

PATHS = (
    "a.txt", "sub/b.txt", "sub", ".", "", "/", "..", "../outside/secret.txt", "sub/../../outside/secret.txt", "out",
    "out/secret.txt", "loop/loop/x", "other:c.txt", "other:", "nowhere:x", "work:a.txt", "sub//b.txt", "./a.txt",
    "a.txt/", "a.txt/..", "~", "~/x", "é.txt", "new/deep/file.txt", "pipe", ".gitignore", "sub/out/secret.txt",
)  # fmt: skip
PIECES = ("../", "/", "..", ".", "\0", "\ud800", ":", "work:", "out", "sub", "~", "//", "\\", "a" * 300, "*", "**/")
CALLS: list[dict[str, Any]] = [
    {"tool": "read_file", "offset": 1, "limit": 5},
    {"tool": "list_folder", "pattern": "*.txt", "recurse": True, "hidden": True, "details": True},
    {"tool": "find_text", "text": "wor", "pattern": "**/*.txt", "regex": True, "ignore_case": True},
    {"tool": "write_file", "text": "new", "mode": "create", "parents": True},
    {"tool": "edit_file", "edits": [{"old": "a", "new": "b"}]},
    {"tool": "move", "source": "a.txt", "target": "sub/moved.txt", "overwrite": True},
    {"tool": "delete", "recursive": True},
    {"tool": "make_folder"},
]


@contextmanager
def _world() -> Iterator[tuple[Path, Path]]:
    """A root with a way out of it, and what is outside."""
    with scratch() as folder:
        root, outside = folder / "work", folder / "outside"
        (root / "sub").mkdir(parents=True)
        outside.mkdir()
        (folder / "work-evil").mkdir()
        (folder / "other").mkdir()
        (outside / "secret.txt").write_text(HIDDEN)
        (root / "a.txt").write_text("a word\nand another\n")
        (root / "sub" / "b.txt").write_text("b")
        (root / ".gitignore").write_text("*.log\n!keep.log\n/sub/\n")
        (folder / "other" / "c.txt").write_text("c")
        (root / "out").symlink_to("../outside")
        (root / "sub" / "out").symlink_to(outside)
        (root / "loop").symlink_to("loop")
        os.mkfifo(root / "pipe")
        yield root, outside


def _files(value: tuple[dict[str, Any], str, str]) -> None:
    call, path, second = value
    with _world() as (root, outside):
        settings = IoSettings(roots={"work": root, "other": root.parent / "other"}, write=("work",))
        tools = {tool.name: tool for tool in io_ensemble(settings).tools}
        tool = tools.get(call.get("tool", "")) if isinstance(call.get("tool"), str) else None
        if tool is None:
            return
        given = {key: item for key, item in call.items() if key != "tool"}
        takes = tool.definition.input_schema["properties"]
        paths = {"path": path, **({"source": path, "target": second} if "source" in takes else {})}
        found = called(tool, {**given, **{key: item for key, item in paths.items() if key in takes}})
        assert HIDDEN not in str(found), "something outside the roots was read"
        assert {each.name: each.read_text() for each in outside.iterdir()} == {"secret.txt": HIDDEN}
        assert sorted(os.listdir(root.parent)) == ["other", "outside", "work", "work-evil"]
        assert os.listdir(root.parent / "other") == ["c.txt"], "a root that may only be read was changed"


# ── patterns ─────────────────────────────────────────────────────────────────────────

GLOBS = (
    "*.py",
    "**/*.txt",
    "src/**",
    "[a-c]?.[!x]",
    "/top",
    "a/b/",
    "{a,b}",
    "**",
    "*",
    "[]]",
    "[",
    "\\*",
    "a**b",
    "[[:alpha:]]",
)
NAMES = ("a.py", "src/x.txt", "top", "a/b", "b1.c", "", "é", "x" * 50)


def _glob(value: tuple[str, list[str]]) -> None:
    pattern, names = value
    found = outcome(lambda: glob_pattern(pattern), ToolError)
    if isinstance(found, LinearPattern):
        for name in names:
            found.within(name)
    if "/" not in pattern and pattern and not re.search(r"[*?\[\]\\]", pattern):
        assert isinstance(found, LinearPattern) and found.within(pattern.strip("/")), "a plain name fits itself"


def _pattern(value: tuple[str, str]) -> None:
    text, line = value
    found = outcome(lambda: LinearPattern(text), ToolError)
    if isinstance(found, LinearPattern):
        found.within(line)


IGNORES = ("*.log\n!keep.log\n/build/\nsub/**/x\n# no\n\\#yes\n  \n", "a\\ \n[\n**\n!\n/\n\\", "!\n!!a\n//\n")


def _ignored(value: tuple[str, list[str]]) -> None:
    text, ways = value
    rules = IgnoreRules().more("", text).more("sub", text)
    for way in ways:
        rules.has(way, is_folder=True)
        rules.has(f"sub/{way}", is_folder=False)


# ── addresses and pages ──────────────────────────────────────────────────────────────

URLS = (
    "https://example.org/a?b=c", "http://127.0.0.1/", "http://[::1]:80/", "http://[::ffff:10.0.0.1]/", "http://2130706433/",
    "http://0x7f.1/", "http://localhost/", "http://example.org:99999/", "http://user:pw@example.org/", "http://[fe80::1%25x]/",
    "ftp://example.org/", "http://", "http://[", "https://exämple.org/", "http://169.254.169.254/latest", "//x", "http://a..b/",
    "http://64:ff9b::7f00:1/", "http://[64:ff9b::7f00:1]/", "http://example.org.", "http://EXAMPLE.org\\@evil/", "http://1.1.1.1/",
)  # fmt: skip
LOOKED_UP = (
    "93.184.215.14",
    "127.0.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "fe80::1%eth0",
    "x",
    "",
    "2606:2800::1",
    "10.0.0.1",
    "[::1]",
)


def _address(value: tuple[str, list[str]]) -> None:
    url, addresses = value

    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    keeper = AddressGatekeeper(IoSettings(hosts=("*",)), resolve)
    found = outcome(lambda: asyncio.run(keeper.check(url)), ToolError)
    if isinstance(found, tuple):
        return
    assert found.at and found.address.scheme in ("http", "https") and 0 < found.address.port < 65536
    assert not re.search(r"[\s\\@]", found.address.host), "a host that two programs read differently"
    for text in found.at:
        assert reserved_range(ipaddress.ip_address(text.partition("%")[0])) is None, (
            "an address that is not public is asked"
        )
        assert ipaddress.ip_address(text.partition("%")[0]).is_global


PAGES = (
    "<!doctype html><title>T</title><h1>Head</h1><p>One <a href='/x'>link</a> &amp; <b>more</b><ul><li>a<li>b</ul>",
    "<script>if (a < b) {}</script><style>x</style><pre>a\n  b</pre><table><tr><td>1<td>2</table>",
    '<!-- c --><p>&#x110000;&#0;&notin;<br/><a href="http://[">x</a><![CDATA[x]]>',
)
TAGS = (
    "<",
    ">",
    "</",
    "<!--",
    "-->",
    "<script>",
    "<a href=",
    "<title>",
    "</title>",
    "&",
    "&#",
    "<svg>" * 20,
    "<p " * 50,
)


def _page(value: tuple[str, str]) -> None:
    page, url = value
    text = html_to_text(page, url)
    assert isinstance(text, str) and len(text) <= 20 * len(page) + 200


# ── databases ────────────────────────────────────────────────────────────────────────

QUERIES = (
    "SELECT * FROM t WHERE a = ?", "SELECT count(*), max(b) FROM t GROUP BY a", "INSERT INTO t VALUES (9, 'x', NULL)",
    "SELECT 9e999, -9e999, x'00ff', 'a' || char(0)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT * FROM n",
    "PRAGMA writable_schema = 1", "ATTACH 'other.db' AS o", "VACUUM INTO 'copy.db'", "SELECT load_extension('x')",
    "SELECT zeroblob(100), randomblob(10), hex(b) FROM t", "DROP TABLE t", "DELETE FROM t; SELECT 1", "BEGIN", "COMMIT",
    "SELECT json_object('a', 1) -> '$.a'", "UPDATE t SET a = 9223372036854775807 + 1", "EXPLAIN SELECT 1", "",
    "CREATE TABLE u AS SELECT * FROM t", "SELECT * FROM sqlite_schema", "REPLACE INTO t VALUES (1, 'y', 2) RETURNING *",
)  # fmt: skip
SQL = (
    "SELECT",
    " FROM t",
    ";",
    "--",
    "/*",
    "'",
    '"',
    "?",
    ":a",
    "@a",
    "$a",
    "\0",
    "\ud800",
    "(",
    ")",
    ",",
    "1e999",
    "x'",
    "|| ",
)
LIMITS = IoLimits(rows=5, row_bytes=2000, query_seconds=0.3)


@cache
def _database() -> bytes:
    with scratch() as folder, closing(sqlite3.connect(folder / "x.db")) as connection:
        connection.executescript(
            "CREATE TABLE t (a INTEGER, b TEXT, c); INSERT INTO t VALUES (1, 'x', 2.5), (2, 'é', x'00');"
        )
        connection.commit()
        return (folder / "x.db").read_bytes()


PARAMETERS: list[Any] = [None, [], [1], ["x", None], [2**70], [True], {"a": 1}, {"a": "\ud800"}, [1.5, 2], [10**400]]


def _query(value: tuple[str, Any]) -> None:
    sql, parameters = value
    with scratch() as folder:
        (folder / "x.db").write_bytes(_database())
        settings = IoSettings(databases={"x": folder / "x.db"}, write_databases=("x",), limits=LIMITS)
        query, schema, execute = sqlite_tools(settings)
        called(query, {"database": "x", "sql": sql, "parameters": parameters})
        assert (folder / "x.db").read_bytes() == _database(), "a query changed the database"
        called(execute, {"database": "x", "sql": sql, "parameters": parameters})
        called(schema, {"database": "x"})
        assert os.listdir(folder) == ["x.db"], "a statement made a file, or left a transaction open"


_WORDS = st.sampled_from(PATHS) | texts(PATHS, PIECES)
TARGETS = (
    Target("io-files", st.tuples(values(CALLS), _WORDS, _WORDS), _files, cost=4),
    Target("io-glob", st.tuples(texts(GLOBS, ("[!", "**/", "(?i)", "\\")), st.lists(texts(NAMES), max_size=4)), _glob),
    Target(
        "io-pattern",
        st.tuples(texts((*GLOBS, "^(a+)+$", "(?<=x)y", "\\p{L}{1,9}", "a{1000}{1000}")), texts(NAMES)),
        _pattern,
    ),
    Target("io-gitignore", st.tuples(texts(IGNORES), st.lists(texts(NAMES), max_size=4)), _ignored),
    Target("io-address", st.tuples(texts(URLS, LOOKED_UP), st.lists(st.sampled_from(LOOKED_UP), max_size=3)), _address),
    Target("io-html", st.tuples(texts(PAGES, TAGS), st.sampled_from(URLS)), _page),
    Target("io-sqlite", st.tuples(texts(QUERIES, SQL), st.sampled_from(PARAMETERS)), _query, cost=4),
)
