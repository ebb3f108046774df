"""A jail: one process behind bubblewrap, seccomp and limits, with nothing of the host but what it was given.

`jail.py`      what a jail is, and how a program is started in one
`launch.py`    bubblewrap's arguments; limits before it reads them
`jailed.py`    a program in a jail: its end, and how to bring it about
`mounts.py`    the files that it can see
`filters.py`   the system calls that it cannot make, and those it gives up when it is up
`inside.py`    what a jailed program does to itself; the standard library only
`probe.py`     whether this machine can have a jail, and if not, what to do about it

What it does not hold back: time on a processor below the limit, the number of empty files in /tmp, and whatever the
kernel itself gets wrong. A process that is run by root is still root's to the kernel, without any capability and in
a user namespace of its own: to become somebody else first would hide a Python that lies below /root.
"""

from __future__ import annotations

from handrail.sandbox.jail.filters import lockdown_filter
from handrail.sandbox.jail.jail import Jail
from handrail.sandbox.jail.launch import JailLimits
from handrail.sandbox.jail.probe import unavailable
from handrail.sandbox.jail.process import JailedProcess
from handrail.sandbox.jail.seccomp_lock import lock

__all__ = ["Jail", "JailLimits", "JailedProcess", "lock", "lockdown_filter", "unavailable"]
