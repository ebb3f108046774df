"""A real PostgreSQL server for tests: a private cluster in a temporary folder, and a database for each test.

`postgres_url` is the address of an empty database, of a server that all tests of this process share and none may hurt.
Tests that stop a server, or kill it, make one of their own with `private_server`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.network import free_port
from tests.polling import blocking_until
from tests.processes import is_running

USER = "tester"
_SERVER_USER = "postgres"
"""Who runs it where we are root, which it refuses."""
_OLDEST = 15


def find_programs() -> Path | None:
    """The folder of the newest PostgreSQL of this machine that is new enough."""
    found = []
    for folder in (*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ.get("PATH", "").split(":"))):
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            told = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True).stdout
            if (version := re.search(r"\) (\d+)", told)) and int(version[1]) >= _OLDEST:
                # Beside the program itself are those that nobody has linked to.
                found.append((int(version[1]), (folder / "postgres").resolve().parent))
    return max(found)[1] if found else None


class PostgresServer:
    """A cluster of its own in a folder, and the process that serves it. Its port stays while it is down.

    Without `durable` it forgets what it wrote when the machine, and not only the process, stops: that is quicker.
    """

    def __init__(self, programs: Path, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self.password = secrets.token_hex(12)
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._names = (f"state_{os.getpid()}_{number}" for number in itertools.count(1))
        self._as_user = self._prepare_folder()
        self._prepare_data()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": folder,
            "max_connections": 200,
            "shared_buffers": "32MB",
            "log_min_messages": "fatal",
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
        }
        self._set(**settings)

    def _prepare_data(self) -> None:
        passwords = self.folder / "password"
        passwords.write_text(self.password)
        self._own(passwords)
        auth = ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={passwords}")
        self._run("initdb", "-D", self.data, "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", *auth)

    def _set(self, **settings: object) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def use_port(self, port: int) -> None:
        """From the next start on."""
        self.port = port
        self._set(port=port)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*self._as_user, str(self._programs / "postgres"), "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not blocking_until(self._answers):
            raise AssertionError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}")

    @property
    def processor_seconds(self) -> float:
        """What its processes have used since it was started."""
        assert self._process is not None
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        ticks = 0
        for pid in (self._process.pid, *map(int, Path(children).read_text().split())):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, words[11:15] if pid == self._process.pid else words[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it as an operator does who does not wait for clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a power cut would, for all that its clients see: every process of it is gone at once."""
        if self._process is not None:
            children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
            pids = [self._process.pid]
            with contextlib.suppress(OSError):  # it has ended by itself
                os.kill(self._process.pid, signal.SIGSTOP)  # it starts no more
                pids += map(int, Path(children).read_text().split())
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            # A server does not start while one of them still has the memory that they shared.
            assert blocking_until(lambda: not any(map(is_running, pids)))
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It keeps its connections, and does nothing until the block ends."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        pids = [self._process.pid]
        os.kill(pids[0], signal.SIGSTOP)  # it starts no more
        pids += map(int, children.read_text().split())
        for pid in pids[1:]:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description is not None else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of an empty one, which is gone afterwards, whoever still uses it."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _prepare_folder(self) -> list[str]:
        if os.getuid() != 0:
            return []
        self._own(self.folder)
        return ["setpriv", f"--reuid={_SERVER_USER}", f"--regid={_SERVER_USER}", "--clear-groups", "--pdeathsig=QUIT"]

    def _own(self, path: Path) -> None:
        if os.getuid() == 0:
            user = pwd.getpwnam(_SERVER_USER)
            os.chown(path, user.pw_uid, user.pw_gid)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as_user, str(self._programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.Error:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


@contextmanager
def private_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """A server that runs, for a test that hurts it. Where none can be had the test is skipped."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = find_programs()
    if programs is None:
        pytest.skip("there is no PostgreSQL from 15 on; run: scripts/setup_postgres.sh")
    # Not pytest's folder: that is closed to others, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="handrail-pg-", dir="/tmp"))
    server = PostgresServer(programs, folder, durable=durable)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with private_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


if __name__ == "__main__":
    sys.exit(find_programs() is None)
