"""What crosses the control socket of the fork server, both ways: a kind and two numbers, always as many bytes."""

from __future__ import annotations

import struct

RECORD = struct.Struct("!Bqq")

FORK = 1
"""To the server: ticket, 0; the worker's socket goes with it."""
SIGNAL = 2
"""To the server: pid, signal number, for the whole group."""
FORKED = 3
"""To the host: ticket, pid; or ticket, the error number negated."""
EXITED = 4
"""To the host: pid, exit code; of a signal, its number negated."""
