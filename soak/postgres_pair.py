"""PostgreSQL with a synchronous standby, which takes over when the first one dies; and a disk that can be full."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.polling import blocking_until
from tests.postgres import USER, PostgresServer, find_programs

_SIZE = "600m"
"""Of the disk of the server that can be full."""
_BALLAST = "ballast"
NODE = "node"
"""The user of the databases, who is no superuser: those are always let in."""


class StandbyServer(PostgresServer):
    """A copy of a server that follows it, until it is promoted."""

    def __init__(self, programs: Path, folder: Path, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(programs, folder, durable=True)

    def _prepare_data(self) -> None:
        self.password = self._primary.password
        url = f"postgresql://{USER}:{self.password}@127.0.0.1:{self._primary.port}/postgres"
        self._run("pg_basebackup", "-D", self.data, "-d", url, "-R", "-X", "stream", "-c", "fast")

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w", "-D", self.data)


class PostgresPair:
    """The server that takes writes, and one that takes over. Their ports stay, whichever of them it is."""

    def __init__(self, folder: Path) -> None:
        programs = find_programs()
        if programs is None:
            raise RuntimeError("there is no PostgreSQL from 15 on; run: scripts/setup_postgres.sh")
        self._programs = programs
        self._folder = folder
        self._made = 0
        self.primary: PostgresServer = PostgresServer(programs, self._new_folder(), durable=True)
        self.primary.start()
        self._ports = [self.primary.port]
        self.standby: StandbyServer | None = None
        self.follow()

    def url(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"postgresql://{NODE}:{self.primary.password}@{hosts}/{database}?target_session_attrs=read-write"

    def create(self, *databases: str) -> None:
        """Databases of a user who may nothing else."""
        self.primary.execute(f"CREATE ROLE {NODE} LOGIN PASSWORD '{self.primary.password}'")
        for name in databases:
            self.primary.execute(f"CREATE DATABASE {name} OWNER {NODE}")

    def cut(self) -> None:
        """Every connection of that user is gone."""
        self.primary.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{NODE}'")

    @contextmanager
    def few_connections(self) -> Iterator[None]:
        """That user may have one, for as long as the block lasts."""
        self.primary.execute(f"ALTER ROLE {NODE} CONNECTION LIMIT 1")
        try:
            self.cut()
            yield
        finally:
            self.primary.execute(f"ALTER ROLE {NODE} CONNECTION LIMIT -1")

    def follow(self) -> None:
        """Have a standby that has everything before a commit is acknowledged."""
        spare = next((port for port in self._ports if port != self.primary.port), None)
        self.standby = StandbyServer(self._programs, self._new_folder(), self.primary)
        if spare is None:
            self._ports.append(self.standby.port)
        else:
            self.standby.use_port(spare)
        self.standby.start()
        self._wait_for("*")
        if not blocking_until(lambda: self._is_synchronous(), seconds=60):
            raise RuntimeError("the standby does not follow")

    def fail_over(self) -> None:
        """The machine of the first one is gone, and the other one goes on by itself; then it gets a standby anew."""
        assert self.standby is not None
        gone, self.primary, self.standby = self.primary, self.standby, None
        gone.kill()
        self.primary.promote()
        shutil.rmtree(gone.folder, ignore_errors=True)
        self.follow()

    def restart(self) -> None:
        self.primary.kill()
        self.primary.start()

    @contextmanager
    def full_disk(self) -> Iterator[bool]:
        """Nothing can be written for as long as the block lasts, if the disk is one that may be filled."""
        if not os.path.ismount(self._folder):
            yield False
            return
        ballast = self._folder / _BALLAST
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        try:
            yield True
        finally:
            ballast.unlink()

    def mend(self) -> None:
        """Whoever ended by itself, as on a full disk, is started again."""
        for each in (self.primary, self.standby):
            if each is not None and not each.is_running:
                each.kill()
                each.start()

    def close(self) -> None:
        for each in (self.standby, self.primary):
            if each is not None:
                each.kill()

    def _wait_for(self, names: str) -> None:
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.execute("SELECT pg_reload_conf()")

    def _is_synchronous(self) -> bool:
        rows = self.primary.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        return bool(rows)

    def _new_folder(self) -> Path:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir(mode=0o755)
        return folder


@contextmanager
def postgres_pair() -> Iterator[PostgresPair]:
    """On a disk of its own in memory where this user may mount one, so that it can be filled."""
    folder = Path(tempfile.mkdtemp(prefix="handrail-pair-", dir="/tmp"))
    folder.chmod(0o755)
    mounted = _call("mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0755", "tmpfs", str(folder))
    pair = None
    try:
        pair = PostgresPair(folder)
        yield pair
    finally:
        if pair is not None:
            pair.close()
        if mounted:
            _call("umount", "--lazy", str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _call(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        return False
