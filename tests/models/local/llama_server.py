"""The embedded runtime's own HTTP server on loopback: a real counterpart for the codecs.

`model_server()` runs it in a child process on a free port, with the same weights
and template as the embedded model.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from handrail.models.local.weights import EngineFiles

_CHILD = """
import json, sys
import xllamacpp

files = json.loads(sys.argv[1])
wanted = xllamacpp.CommonParams()
wanted.model.path = files["weights"]
wanted.n_ctx, wanted.n_parallel = 4096, 1
wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
wanted.use_jinja, wanted.verbosity, wanted.offline = True, -1, True
wanted.hostnames = ["127.0.0.1"]
wanted.chat_template = files["template"]
if files["adapter"] is not None:
    wanted.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(files["adapter"], 1.0)]
server = xllamacpp.Server(wanted)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def model_server(files: EngineFiles) -> Iterator[str]:
    """The address of a running server, as `http://127.0.0.1:port`."""
    command = [sys.executable, "-c", _CHILD, json.dumps(msgspec.to_builtins(files, enc_hook=str))]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()
