"""The journal of several replicas on a real PostgreSQL: one log, proofs, leases, and a server that goes away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from handrail.cli.root import root
from handrail.core.errors import BrokenProof, JournalError, LeaseHeld, LeaseLost, UsageError
from handrail.core.events import CallIntended
from handrail.journal import Signer, Verifier, audit, erase, export_run, prove
from handrail.journal.journal import JournalTiming
from handrail.journal.person_answers import answer
from handrail.journal.postgres_journal import PostgresJournal
from handrail.journal.postgres_tables import SCHEMA
from handrail.journal.reader import JournalReader
from handrail.state.database import StateDatabase
from handrail.state.schema import StoreSchema
from handrail.state.url import StateUrl
from tests.journal.event_samples import asked, finished, intended, settled, started, whole_run
from tests.polling import until, until_asked
from tests.postgres import PostgresServer, private_server


@pytest.fixture
async def replicas(postgres_url: str) -> AsyncIterator[list[PostgresJournal]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await PostgresJournal.open(postgres_url)) for _ in range(3)]


async def test_what_many_replicas_append_at_once_is_one_log_that_verifies(
    postgres_url: str, replicas: list[PostgresJournal]
) -> None:
    async def write(journal: PostgresJournal, run: str) -> None:
        for event in whole_run(run):
            await journal.append(event, durable=True)

    async with asyncio.TaskGroup() as group:
        for number, journal in enumerate(replicas):
            for lane in range(8):
                group.create_task(write(journal, f"run-{number}-{lane}"))
    for number in range(3):
        for lane in range(8):
            run = f"run-{number}-{lane}"
            assert await replicas[(number + 1) % 3].history(run) == whole_run(run)
    for journal in replicas:
        await journal.aclose()
    report = await asyncio.to_thread(audit, StateUrl(postgres_url))

    assert report.ok and report.entries == 24 * len(whole_run()) and report.unsigned_tail == 0
    assert len({journal.verifier_key for journal in replicas}) == 1


async def test_receipts_and_bundles_are_those_of_any_journal(postgres_url: str, tmp_path: Path) -> None:
    async with await PostgresJournal.open(postgres_url) as journal:
        for event in whole_run():
            await journal.append(event)
        key = Verifier.parse(journal.verifier_key)
    url = StateUrl(postgres_url)
    call = next(event for event in whole_run() if isinstance(event, CallIntended)).call_id
    (await asyncio.to_thread(prove, url, call, run="run-1")).verify(key)
    bundle = await asyncio.to_thread(export_run, url, "run-1", tmp_path / "bundle")
    told = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-I", str(bundle / "verify.py"), str(bundle)], capture_output=True, text=True
    )

    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE handrail.entry SET data = 'x' WHERE seq = 1",
        "UPDATE handrail.entry SET leaf = (SELECT leaf FROM handrail.entry WHERE seq = 2) WHERE seq = 1",
        "DELETE FROM handrail.entry WHERE seq = 1",
        "DELETE FROM handrail.entry WHERE seq = (SELECT max(seq) FROM handrail.entry)",
    ],
)
async def test_a_changed_table_is_found(postgres_server: PostgresServer, postgres_url: str, change: str) -> None:
    async with await PostgresJournal.open(postgres_url) as journal:
        for event in whole_run():
            await journal.append(event)
    url = StateUrl(postgres_url)
    assert (await asyncio.to_thread(audit, url)).ok
    await asyncio.to_thread(postgres_server.execute, change, url.name)

    assert not (await asyncio.to_thread(audit, url)).ok


async def test_a_key_that_is_given_is_kept_out_of_the_database(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    signer = Signer.create("example.org/journal")
    async with await PostgresJournal.open(postgres_url, signer=signer, origin="example.org/journal") as journal:
        await journal.append(started())
    url = StateUrl(postgres_url)

    assert postgres_server.execute("SELECT count(*) FROM handrail.signing_key", url.name) == [(0,)]
    with pytest.raises(JournalError, match="not in its database"):
        await PostgresJournal.open(postgres_url)
    with pytest.raises(JournalError, match="another key"):
        await PostgresJournal.open(postgres_url, signer=Signer.create("example.org/journal"))


async def test_erased_bodies_are_gone_and_proofs_stay(postgres_url: str) -> None:
    url = StateUrl(postgres_url)
    async with await PostgresJournal.open(postgres_url) as journal:
        for event in whole_run():
            await journal.append(event)
        before = await journal.version_of("run-1")
        count = await asyncio.to_thread(lambda: erase(url, run="run-1"))
        assert count > 0 and await journal.version_of("run-1") != before
        assert all(event.body is None or getattr(event, event.body) is None for event in await journal.history("run-1"))
    report = await asyncio.to_thread(audit, url)

    assert report.ok and report.erased == count


async def test_the_first_answer_counts_and_wakes_whoever_waits_in_another_replica(
    replicas: list[PostgresJournal],
) -> None:
    asks, waits, answers = replicas
    question = asked()
    await asks.append(question, durable=True)
    waiting = asyncio.create_task(waits.wait_for_answer(question.run, question.request))
    said = question.answered("deny", at=9, by="ada"), question.answered("allow", at=9, by="bob")
    counted = await asyncio.gather(answers.answer(said[0], durable=True), asks.answer(said[1], durable=True))

    assert counted[0] == counted[1] == await asyncio.wait_for(waiting, 60)
    assert await waits.find_answer(question.run, question.request) == counted[0]


async def test_an_effect_that_two_replicas_would_begin_is_begun_by_one(replicas: list[PostgresJournal]) -> None:
    identity = b"pay 7"
    began = await asyncio.gather(
        *(
            journal.append_effect(intended(number, f"run-{number}"), identity, None, durable=True)
            for number, journal in enumerate(replicas)
        )
    )
    mark = await replicas[0].last_effect(identity)

    assert sorted(began) == [False, False, True]
    assert mark is not None and mark.run == f"run-{began.index(True)}"
    assert [mark] * 2 == [await journal.last_effect(identity) for journal in replicas[1:]]


async def test_a_run_belongs_to_one_replica_at_a_time(replicas: list[PostgresJournal]) -> None:
    one, other, _ = replicas
    lease = await one.lease("run-1")
    with pytest.raises(LeaseHeld, match=f"process {os.getpid()} on") as held:
        await other.lease("run-1")
    assert held.value.run == "run-1"
    assert one.append_soon(started())
    lease.release()
    again = await one.lease("run-1")  # after the one that is let go of
    again.release()
    await until_taken(other, "run-1")

    assert await other.history("run-1") == [started()]


async def until_taken(journal: PostgresJournal, run: str) -> object:
    while True:
        try:
            return await journal.lease(run)
        except LeaseHeld:
            await asyncio.sleep(0.01)


STOPPED = """
import asyncio, sys
from handrail.journal.postgres_journal import PostgresJournal
from tests.journal.event_samples import settled, started

async def main() -> None:
    journal = await PostgresJournal.open(sys.argv[1], heartbeat=0.2)
    lease = await journal.lease("run-1")
    await journal.append(started(), durable=True)
    print("began", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    try:
        await asyncio.gather(
            journal.append(settled(66), durable=True), journal.append(settled(1, "run-2"), durable=True)
        )
    except Exception as error:
        print(type(error).__name__, flush=True)
    print(lease.is_lost, flush=True)
    lease.release()
    await journal.aclose()

asyncio.run(main())
"""


async def test_a_replica_that_was_stopped_for_longer_than_its_lease_writes_nothing_into_the_run(
    postgres_url: str,
) -> None:
    async with await PostgresJournal.open(postgres_url, heartbeat=0.2) as journal:
        cut_off: list[str] = []
        journal.watch_cut_off(cut_off.extend)
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", STOPPED, postgres_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert await asyncio.to_thread(process.stdout.readline) == "began\n"
            with pytest.raises(LeaseHeld):
                await journal.lease("run-1")
            process.send_signal(signal.SIGSTOP)
            await until(lambda: "run-1" in cut_off)
            lease = await journal.lease("run-1")
            await journal.append(settled(1), durable=True)
            process.send_signal(signal.SIGCONT)
            told, _ = await asyncio.to_thread(process.communicate, "\n")
        finally:
            process.kill()
            process.wait()

        assert told.split() == ["LeaseLost", "True"]
        assert await journal.history("run-1") == [started(), settled(1)]
        assert await journal.history("run-2") == [settled(1, "run-2")]  # which shared the commit
        lease.release()
    assert (await asyncio.to_thread(audit, StateUrl(postgres_url))).ok


async def test_a_replica_that_was_only_slow_keeps_its_run_if_nobody_took_it_up(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with await PostgresJournal.open(postgres_url, heartbeat=30) as journal:
        lease = await journal.lease("run-1")
        name = StateUrl(postgres_url).name
        postgres_server.execute("UPDATE handrail.lease SET expires = now() - interval '1 hour'", name)
        await journal.append(started(), durable=True)
        postgres_server.execute("UPDATE handrail.lease SET fence = nextval('handrail.fence')", name)
        with pytest.raises(LeaseLost, match="'run-1' was taken up by another replica"):
            await journal.append(settled(1), durable=True)

        assert lease.is_lost
        assert await journal.history("run-1") == [started()]


async def test_a_replica_that_lost_a_run_writes_nothing_into_it_after_it_let_go_either(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with (
        await PostgresJournal.open(postgres_url, heartbeat=30) as journal,
        await PostgresJournal.open(postgres_url, heartbeat=30) as other,
    ):
        lease = await journal.lease("run-1")
        await journal.append(started(), durable=True)
        name = StateUrl(postgres_url).name
        postgres_server.execute("UPDATE handrail.lease SET expires = now() - interval '1 hour'", name)
        (await other.lease("run-1")).release()
        with pytest.raises(LeaseLost):
            await journal.append(settled(1), durable=True)
        lease.release()
        await journal.lease("run-2")  # what was asked for before is done
        with pytest.raises(LeaseLost):  # as the end of a handler that nobody could stop
            await journal.append(settled(2), durable=True)
        assert await other.history("run-1") == [started()]

        await journal.lease("run-1")
        await journal.append(settled(3), durable=True)
        assert await other.history("run-1") == [started(), settled(3)]


async def test_a_lease_that_a_crash_of_the_server_took_back_is_not_taken_for_the_next_one() -> None:
    with private_server(durable=True) as server:
        server.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        server.restart()
        async with (
            await PostgresJournal.open(server.url(), heartbeat=60) as journal,
            await PostgresJournal.open(server.url(), heartbeat=60) as other,
        ):
            lost = await journal.lease("run-1")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            lease = await other.lease("run-1")
            assert lease.fence == lost.fence  # the server does not remember the first one
            with pytest.raises(LeaseLost):
                await journal.append(started(), durable=True)
            lost.release()
            await journal.lease("run-2")  # what was asked for before is done
            await other.append(started(), durable=True)
            with pytest.raises(LeaseHeld):
                await journal.lease("run-1")
            assert await other.history("run-1") == [started()]


async def test_a_durable_entry_is_one_also_where_the_server_would_not_wait_for_its_disk(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = StateUrl(postgres_url).name
    postgres_server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    async with await PostgresJournal.open(postgres_url) as journal:
        kept = "SELECT string_agg(current_setting('synchronous_commit'), ',') FROM generate_series(1, 1)"
        assert journal.database.execute_now(kept) == [("on",)]


async def test_no_entry_is_lost_or_doubled_while_the_server_is_killed_again_and_again() -> None:
    with private_server(durable=True) as server:
        timing = JournalTiming(patience=60)
        async with AsyncExitStack() as stack:
            replicas = [
                await stack.enter_async_context(await PostgresJournal.open(server.url(), timing=timing))
                for _ in range(2)
            ]
            written: dict[str, list[int]] = {f"run-{lane}": [] for lane in range(6)}
            over = asyncio.Event()

            async def write(run: str, journal: PostgresJournal) -> None:
                number = 0
                while not over.is_set() and number < 4000:
                    await journal.append(settled(number, run), durable=True)
                    written[run].append(number)
                    number += 1

            async with asyncio.TaskGroup() as group:
                for lane, run in enumerate(written):
                    group.create_task(write(run, replicas[lane % 2]))
                for _ in range(3):
                    before = sum(map(len, written.values()))
                    await until(partial(_has_written, written, before + 60))
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                over.set()
            for run, numbers in written.items():
                assert await replicas[0].history(run) == [settled(number, run) for number in numbers]
        assert (await asyncio.to_thread(audit, StateUrl(server.url()))).ok


def _has_written(written: dict[str, list[int]], enough: int) -> bool:
    return sum(map(len, written.values())) > enough


async def test_a_server_that_stays_away_ends_appends_with_what_to_do(postgres_url: str) -> None:
    with private_server() as server:
        journal = await PostgresJournal.open(server.url(), timing=JournalTiming(patience=0.3))
        server.kill()
        with pytest.raises(JournalError, match="PostgreSQL runs there"):
            await journal.append(started(), durable=True)
        server.start()
        await journal.append(started(), durable=True)
        assert (await journal.history("run-1"))[-1] == started()
        await journal.aclose()


async def test_a_journal_that_was_idle_while_its_server_was_restarted_is_used_and_closed_as_if_nothing_was() -> None:
    with private_server() as server:
        journal = await PostgresJournal.open(server.url(), heartbeat=60, timing=JournalTiming(unsigned=600))
        await journal.append(started(), durable=True)
        looks = (
            journal.check,
            partial(journal.find_answer, "run-1", "none"),
            partial(journal.last_effect, b"none"),
            partial(journal.version_of, "run-1"),
            partial(journal.history, "run-1"),
            journal.aclose,
        )
        for look in looks:
            await asyncio.to_thread(server.restart)
            await look()
        report = await asyncio.to_thread(audit, StateUrl(server.url()))
        assert report.ok and report.entries == 1


async def test_a_server_that_hangs_is_told_as_such_to_whoever_asks_whether_entries_can_be_written() -> None:
    with private_server() as server:
        async with await PostgresJournal.open(server.url()) as journal:
            await journal.check()
            with server.hanging():
                # What was found is believed for a second.
                await until_asked(partial(_told, journal, "look at its disk, or at the server"))
            await until_asked(partial(_told, journal, ""))


async def test_a_journal_whose_server_hangs_is_closed_all_the_same() -> None:
    with private_server() as server:
        journal = await PostgresJournal.open(server.url(), timing=JournalTiming(unsigned=600))
        lease = await journal.lease("run-1")
        await journal.append(started(), durable=True)
        with server.hanging():
            lease.release()
            with pytest.raises(JournalError, match="the state at"):
                await journal.aclose()
        async with await PostgresJournal.open(server.url()) as again:
            assert await again.history("run-1") == [started()]


async def _told(journal: PostgresJournal, wanted: str) -> bool:
    """Whether this is in what it says; nothing is that entries can be written."""
    try:
        await journal.check()
    except JournalError as error:
        return bool(wanted) and wanted in str(error)
    return not wanted


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_hold_every_text_is_refused(
    postgres_server: PostgresServer, encoding: str
) -> None:
    name = f"narrow_{encoding.lower()}"
    postgres_server.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    with pytest.raises(JournalError, match=f"has the encoding {encoding}, .* ENCODING 'UTF8'"):
        await PostgresJournal.open(postgres_server.url(name))


@pytest.mark.parametrize("version", range(1, SCHEMA.version))
async def test_a_state_of_each_earlier_version_is_brought_up_to_date(postgres_url: str, version: int) -> None:
    database = StateDatabase.open(postgres_url)
    await asyncio.to_thread(database.migrate, StoreSchema(SCHEMA.store, SCHEMA.migrations[:version]))
    database.close()
    async with await PostgresJournal.open(postgres_url) as journal:
        lease = await journal.lease("run-1")
        await journal.append(started(), durable=True)
        lease.release()
        assert await journal.history("run-1") == [started()]
    assert (await asyncio.to_thread(audit, StateUrl(postgres_url))).ok


async def test_no_connection_stays_open_that_was_made_in_place_of_a_lost_one(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = StateUrl(postgres_url).name
    ours = f"FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'handrail'"
    async with await PostgresJournal.open(postgres_url) as journal:
        await journal.append(started(), durable=True)
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) {ours}", name)
        await journal.append(settled(1), durable=True)
        assert await journal.history("run-1") == [started(), settled(1)]

    await until(lambda: postgres_server.execute(f"SELECT count(*) {ours}", name) == [(0,)])


async def test_entries_that_a_crash_of_the_server_took_back_are_written_over() -> None:
    with private_server(durable=True) as server:
        async with await PostgresJournal.open(server.url()) as journal:
            await journal.append(started(), durable=True)
            await journal.append(settled(1), durable=False)
            # What a crash does to a commit that was not synchronous.
            server.execute("DELETE FROM handrail.entry WHERE seq = 1")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await journal.append(settled(2), durable=True)
            assert await journal.history("run-1") == [started(), settled(2)]
        assert (await asyncio.to_thread(audit, StateUrl(server.url()))).ok


async def test_commands_take_the_address(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    question = asked()
    async with await PostgresJournal.open(postgres_url) as journal:
        for event in whole_run("run-2"):
            await journal.append(event)
        await journal.append(started())
        await journal.append(question)

    def run(*words: str) -> str:
        done = CliRunner().invoke(root, list(words), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    def look() -> None:
        at = ("--journal", postgres_url)
        assert "run-2" in run("proof", "list", *at)
        assert json.loads(run("proof", "verify", "--json", *at))["ok"]
        assert "run-2" in run("proof", "show", "run-2", *at)
        run("proof", "export", "run-2", str(tmp_path / "bundle"), *at)
        monkeypatch.setenv("HANDRAIL_STATE", postgres_url)
        assert question.request in run("confirm", "list", "--json")
        run("confirm", "deny", question.request, "--by", "ada")
        assert question.request not in run("confirm", "list", "--json")

    await asyncio.to_thread(look)
    with JournalReader(StateUrl(postgres_url)) as reader:
        assert [each.type for each in reader.entries(question.run)][-1] == "confirmation.answered"
    with pytest.raises(UsageError, match="somebody else has answered"):
        await answer(StateUrl(postgres_url), question, "deny", by="bob")


async def test_a_database_without_a_journal_says_so(postgres_url: str) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        JournalReader(StateUrl(postgres_url))


async def test_a_log_whose_end_was_changed_is_not_taken_up(postgres_server: PostgresServer, postgres_url: str) -> None:
    async with await PostgresJournal.open(postgres_url) as journal:
        await journal.append(finished())
    name = StateUrl(postgres_url).name
    postgres_server.execute("UPDATE handrail.checkpoint SET frontier = decode(repeat('00', 32), 'hex')", name)

    with pytest.raises(BrokenProof):
        await PostgresJournal.open(postgres_url)
