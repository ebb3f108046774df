"""A node as people start it: `handrail serve` in a folder, a process that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests import prestarted
from tests.approved import approve


class NodeProcess:
    """It serves while the block runs; `kill` and `start` do what a crash and a person do. The port stays the same."""

    def __init__(self, folder: Path, state: Path, *options: str) -> None:
        self._folder = folder
        self._state = state
        self._options = options
        if (config := folder / "handrail.toml").exists():
            approve(config, state)
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.token = ""

    def __enter__(self) -> NodeProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGTERM)

    def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        serve = ("-m", "handrail", "serve", "--json", "--listen", f"127.0.0.1:{port}")
        command = [*prestarted.command(*prestarted.NODE), *serve, *self._options]
        environment = {**os.environ, "XDG_STATE_HOME": str(self._state)}
        self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, text=True, env=environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the node does not start, and ended with {self._process.wait(30)}"
        said = json.loads(line)
        self.url, self.token = said["url"], said["token"]

    def kill(self) -> None:
        """As the kernel does: nothing is written down any more."""
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.communicate(timeout=30)
            self._process = None
