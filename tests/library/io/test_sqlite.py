"""The SQLite tools on real databases."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import ToolError
from handrail.library.io import IoLimits, IoSettings, io_ensemble
from handrail.library.io.sqlite import sqlite_tools
from tests.examples import examples
from tests.library.io.io_calls import Scene

pytestmark = pytest.mark.requirement("converser.standard-ensembles")


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, photo BLOB);"
        "INSERT INTO people (name, photo) VALUES ('Ada', x'0102'), ('Bo', NULL), ('Cy', NULL);"
        "CREATE INDEX by_name ON people (name);"
        "CREATE VIEW short AS SELECT name FROM people WHERE length(name) = 2;"
    )
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def given_databases(tmp_path: Path, *, limits: IoLimits = IoLimits()) -> IoSettings:
    return IoSettings(
        databases={"read": database(tmp_path / "read only?#%.db"), "write": database(tmp_path / "write.db")},
        write_databases=("write",),
        limits=limits,
    )


def scene(tmp_path: Path, **more: Any) -> Scene:
    return Scene(io_ensemble(given_databases(tmp_path, **more)))


async def content(io: Scene, tool: str, **arguments: Any) -> Any:
    result = await io.call(tool, **arguments)
    assert result.outcome == "ok", result.text
    return result.content


async def test_a_query_gives_columns_and_rows(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        found = await content(io, "sqlite_query", database="read", sql="SELECT id, name, photo FROM people ORDER BY id")
        by_place = await content(
            io, "sqlite_query", database="read", sql="SELECT id FROM people WHERE name = ?", parameters=["Bo"]
        )
        by_name = await content(
            io, "sqlite_query", database="read", sql="SELECT :a + 1, :b", parameters={"a": 1, "b": "x' OR 1=1"}
        )
        recursive = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT sum(i) FROM n"
        summed = await content(io, "sqlite_query", database="read", sql=recursive)

    photo = "(blob of 2 bytes, beginning 0102)"
    assert found == {"columns": ["id", "name", "photo"], "rows": [[1, "Ada", photo], [2, "Bo", None], [3, "Cy", None]]}
    assert (by_place["rows"], by_name["rows"], summed["rows"]) == ([[2]], [[2, "x' OR 1=1"]], [[6]])


async def test_the_databases_and_their_tables_can_be_listed(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        listed = await content(io, "sqlite_schema")
        tables = (await content(io, "sqlite_schema", database="read"))["tables"]

    assert listed == {"databases": [{"name": "read", "writable": False}, {"name": "write", "writable": True}]}
    assert [(table["name"], table["kind"]) for table in tables] == [("people", "table"), ("short", "view")]
    assert tables[0]["sql"].startswith("CREATE TABLE people (id INTEGER")


async def test_a_list_of_tables_that_is_cut_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, limits=IoLimits(rows=1)) as io:
        cut = await content(io, "sqlite_schema", database="read")

    assert [table["name"] for table in cut["tables"]] == ["people"]
    assert cut["note"] == "there are more tables than these 1"


FORBIDDEN = [
    "INSERT INTO people (name) VALUES ('Eve')",
    "UPDATE people SET name = 'Eve'",
    "DELETE FROM people",
    "DROP TABLE people",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x (a)",
    "UPDATE sqlite_master SET sql = 'x'",
    "DELETE FROM sqlite_master",
    "CREATE VIRTUAL TABLE x USING fts5(a)",
    "ATTACH DATABASE '{other}' AS other",
    "DETACH DATABASE main",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA database_list",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('/tmp/x.so')",
    "VACUUM INTO '{other}'",
    "VACUUM",
    "BEGIN",
    "COMMIT",
    "SAVEPOINT a",
    "REINDEX",
    "ANALYZE",
]


async def test_a_query_does_nothing_but_read(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:  # one process for all of them
        before = (tmp_path / "write.db").read_bytes()
        for sql in FORBIDDEN:
            result = await io.call("sqlite_query", database="write", sql=sql.format(other=tmp_path / "other.db"))

            assert result.is_error, (sql, result.text)
            assert result.error is not None and result.error.code in ("not_allowed", "sql"), sql
            assert (tmp_path / "write.db").read_bytes() == before, sql
            assert sorted(os.listdir(tmp_path)) == ["read only?#%.db", "write.db"], sql


async def test_what_is_not_one_good_statement_is_told(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        for sql in ("SELECT 1; DELETE FROM people", "SELECT 1; SELECT 2", "", "nonsense", "SELECT nope"):
            assert await io.code("sqlite_query", database="read", sql=sql) == "sql", sql
        rows = (await content(io, "sqlite_query", database="read", sql="SELECT count(*) FROM people"))["rows"]

    assert rows == [[3]]


@settings(max_examples=examples(50))
@given(sql=st.text(max_size=60), parameters=st.none() | st.lists(st.integers() | st.text() | st.none(), max_size=3))
def test_any_statement_is_answered_or_refused(
    sql: str, parameters: list[Any] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.db"
    if not path.exists():
        database(path)
    query = sqlite_tools(IoSettings(databases={"d": path}))[0]
    try:
        query(database="d", sql=sql, parameters=parameters)
    except ToolError as error:
        assert error.code in ("sql", "not_allowed")


async def test_a_database_that_is_not_named_cannot_be_reached(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        for name in ("other", str(tmp_path / "write.db"), "../write.db", ""):
            assert await io.code("sqlite_query", database=name, sql="SELECT 1") == "not_found"


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    named = IoSettings(databases={"d": tmp_path / "none.db"}, write_databases=("d",))
    async with Scene(io_ensemble(named)) as io:
        assert await io.code("sqlite_query", database="d", sql="SELECT 1") == "not_found"
        assert await io.code("sqlite_execute", database="d", sql="CREATE TABLE x (a)") == "not_found"

    assert os.listdir(tmp_path) == []


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is no database, but long enough to look like one " * 20)
    async with Scene(io_ensemble(IoSettings(databases={"d": tmp_path / "x.db"}))) as io:
        assert await io.code("sqlite_query", database="d", sql="SELECT * FROM sqlite_schema") == "sql"


async def test_too_many_rows_and_too_long_rows_are_cut_with_a_note(tmp_path: Path) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    async with scene(tmp_path, limits=IoLimits(rows=5, row_bytes=1_000)) as io:
        rows = await content(io, "sqlite_query", database="read", sql=many)
        long = await content(io, "sqlite_query", database="read", sql=f"SELECT hex(zeroblob(300)) FROM ({many})")

    assert rows["rows"] == [[1], [2], [3], [4], [5]]
    assert rows["note"].startswith("there are more rows than these 5")
    assert len(long["rows"]) == 1


async def test_a_row_that_is_too_long_by_itself_is_cut_with_a_note(tmp_path: Path) -> None:
    async with scene(tmp_path, limits=IoLimits(row_bytes=100)) as io:
        found = await content(io, "sqlite_query", database="read", sql="SELECT hex(zeroblob(300)), 1")

    assert found["rows"] == [["0" * 50 + "…", 1]]
    assert "substr()" in found["note"]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_a_query_without_an_end_is_given_up_and_blocks_nobody(tmp_path: Path) -> None:
    async with asyncio.timeout(60), scene(tmp_path, limits=IoLimits(query_seconds=2)) as io:
        result = await io.call("sqlite_query", database="read", sql=ENDLESS)

    assert result.error is not None
    assert (result.error.code, "2 s" in result.error.message) == ("too_slow", True)


LONG_STEP = "instr(hex(zeroblob(500000)), hex(zeroblob(250000)) || '1')"
"""Half a minute or so of comparing bytes, in one step of SQLite's machine."""


@pytest.mark.parametrize("tool", ["sqlite_query", "sqlite_execute"])
async def test_a_statement_that_sqlite_cannot_interrupt_is_killed(tmp_path: Path, tool: str) -> None:
    steps = " + ".join([LONG_STEP] * 20)
    sql = f"SELECT {steps}" if tool == "sqlite_query" else f"UPDATE people SET id = id + 10 + {steps}"
    async with scene(tmp_path, limits=IoLimits(query_seconds=1)) as io:
        await content(io, "sqlite_query", database="write", sql="SELECT 1")
        result = await io.call(tool, database="write", sql=sql)
        again = await content(io, "sqlite_query", database="write", sql="SELECT max(id) FROM people")

    assert (result.outcome, result.still_running) == ("timeout", False)
    assert "was stopped" in result.text
    assert again["rows"] == [[3]]


async def test_a_value_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        assert await io.code("sqlite_query", database="read", sql="SELECT zeroblob(1000000000)") == "too_large"
        grows = "SELECT replace(hex(zeroblob(100000)), '0', 'ten times as much')"
        assert await io.code("sqlite_query", database="read", sql=grows) == "too_large"
        wide = f"SELECT {', '.join(['zeroblob(1000000)'] * 201)}"
        assert await io.code("sqlite_query", database="read", sql=wide) == "too_large"


async def test_a_table_with_very_many_columns_is_read_in_parts(tmp_path: Path) -> None:
    path = database(tmp_path / "w.db", f"CREATE TABLE wide ({', '.join(f'c{n} DEFAULT {n}' for n in range(500))})")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO wide DEFAULT VALUES")
    connection.close()
    async with Scene(io_ensemble(IoSettings(databases={"w": path}))) as io:
        assert await io.code("sqlite_query", database="w", sql="SELECT * FROM wide") == "too_large"
        assert (await content(io, "sqlite_query", database="w", sql="SELECT c1, c499 FROM wide"))["rows"] == [[1, 499]]


async def test_json_and_full_text_tables_can_be_read_and_filled(tmp_path: Path) -> None:
    path = database(tmp_path / "f.db", "CREATE VIRTUAL TABLE notes USING fts5(words)")
    async with Scene(io_ensemble(IoSettings(databases={"f": path}, write_databases=("f",)))) as io:
        await io.text("sqlite_execute", database="f", sql="INSERT INTO notes VALUES ('buy milk'), ('sell bread')")
        found = await content(io, "sqlite_query", database="f", sql="SELECT words FROM notes WHERE notes MATCH 'milk'")
        parts = await content(io, "sqlite_query", database="f", sql="SELECT value FROM json_each('[1, 2]')")

    assert (found["rows"], parts["rows"]) == ([["buy milk"]], [[1], [2]])


async def test_a_number_that_json_does_not_have_is_shown_in_words(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        found = await content(io, "sqlite_query", database="read", sql="SELECT 9e999, -9e999, 1.5")

    assert found["rows"] == [["inf", "-inf", 1.5]]


async def test_a_database_that_somebody_else_writes_to_is_busy(tmp_path: Path) -> None:
    async with scene(tmp_path, limits=IoLimits(query_seconds=0.5)) as io:
        other = sqlite3.connect(tmp_path / "write.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        try:
            assert await io.code("sqlite_query", database="write", sql="SELECT * FROM people") == "busy"
            assert await io.code("sqlite_execute", database="write", sql="DELETE FROM people") == "busy"
        finally:
            other.close()


async def test_a_function_that_no_limit_of_time_can_stop_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        for function in ("printf", "format", "PRINTF"):
            sql = f"SELECT {function}('%.*c', 2000000000, 'x')"
            for tool in ("sqlite_query", "sqlite_execute"):
                assert await io.code(tool, database="write", sql=sql) == "not_allowed", function


async def test_a_change_is_made_where_it_is_allowed(tmp_path: Path) -> None:
    async with scene(tmp_path) as io:
        added = await content(
            io,
            "sqlite_execute",
            database="write",
            sql="INSERT INTO people (name) VALUES (?), (?) RETURNING id",
            parameters=["Di", "Ed"],
        )
        changed = await content(io, "sqlite_execute", database="write", sql="UPDATE people SET name = upper(name)")
        made = await content(io, "sqlite_execute", database="write", sql="CREATE TABLE more (a)")
        names = await content(io, "sqlite_query", database="write", sql="SELECT group_concat(name) FROM people")
        assert await io.code("sqlite_execute", database="read", sql="DELETE FROM people") == "read_only"

    assert (added["rows"], changed, made) == ([[4], [5]], {"changed": 5}, {"changed": 0})
    assert names["rows"] == [["ADA,BO,CY,DI,ED"]]


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        ("UPDATE people SET name = 'Eve' RETURNING id", 3),
        ("WITH some AS (SELECT 1 AS id UNION SELECT 2) UPDATE people SET name = 'Eve' WHERE id IN some", 2),
        ("SELECT 1", 0),
    ],
)
async def test_a_change_is_counted_whatever_is_shown_of_it(tmp_path: Path, sql: str, changed: int) -> None:
    async with scene(tmp_path, limits=IoLimits(rows=1)) as io:
        told = await content(io, "sqlite_execute", database="write", sql=sql)
        rows = await content(io, "sqlite_query", database="write", sql="SELECT sum(name = 'Eve') FROM people")

    assert (told["changed"], rows["rows"]) == (changed, [[changed]])


async def test_a_change_does_not_reach_out_of_its_database(tmp_path: Path) -> None:
    reaching = [sql for sql in FORBIDDEN if sql.split()[0] in "ATTACH DETACH PRAGMA VACUUM BEGIN COMMIT"]
    async with scene(tmp_path) as io:
        for sql in reaching:
            code = await io.code("sqlite_execute", database="write", sql=sql.format(other=tmp_path / "other.db"))

            assert code in ("not_allowed", "sql"), sql
            assert sorted(os.listdir(tmp_path)) == ["read only?#%.db", "write.db"], sql


async def test_a_change_that_fails_or_takes_too_long_is_not_made(tmp_path: Path) -> None:
    endless = f"INSERT INTO people (name) VALUES ('Eve'), (({ENDLESS}))"
    async with asyncio.timeout(60), scene(tmp_path, limits=IoLimits(query_seconds=2)) as io:
        assert await io.code("sqlite_execute", database="write", sql=endless) == "too_slow"
    (tmp_path / "new").mkdir()
    async with scene(tmp_path / "new") as io:
        assert await io.code("sqlite_execute", database="write", sql="INSERT INTO people (id) VALUES (9), (1)") == "sql"
        rows = await content(io, "sqlite_query", database="write", sql="SELECT count(*) FROM people")

    assert rows["rows"] == [[3]]
    with sqlite3.connect(tmp_path / "write.db") as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (3,)
    connection.close()


def test_two_names_of_one_file_are_one_resource(tmp_path: Path) -> None:
    path = database(tmp_path / "one.db")
    (tmp_path / "link.db").symlink_to(path)
    query, *_ = sqlite_tools(IoSettings(databases={"a": path, "b": tmp_path / "link.db", "c": tmp_path / "c.db"}))
    assert query.resource is not None

    assert query.resource({"database": "a"}) == query.resource({"database": "b"}) != query.resource({"database": "c"})


async def test_a_view_of_a_stranger_runs_nothing_that_a_query_may_not(tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", "CREATE VIEW bad AS SELECT load_extension('/tmp/x.so') AS a")
    async with Scene(io_ensemble(IoSettings(databases={"s": path}))) as io:
        assert await io.code("sqlite_query", database="s", sql="SELECT * FROM bad") in ("not_allowed", "sql")


async def test_text_that_is_no_unicode_is_read_with_a_mark_where_it_is_not(tmp_path: Path) -> None:
    path = database(tmp_path / "t.db", "INSERT INTO people (id, name) VALUES (9, CAST(x'ff41' AS TEXT))")
    async with Scene(io_ensemble(IoSettings(databases={"t": path}))) as io:
        found = await content(io, "sqlite_query", database="t", sql="SELECT name FROM people WHERE id = 9")

    assert found["rows"] == [["\ufffdA"]]
