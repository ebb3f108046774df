"""What several tasks of a group raised, as the one exception that a caller can catch.

`except*` cannot do it: up to Python 3.11.3 whatever is raised inside of it reaches the caller in a group.
"""

from __future__ import annotations


def unwrap_exception_group(group: BaseExceptionGroup[BaseException], kind: type[Exception]) -> BaseException:
    """The first exception of a group, if all are of that kind; else the group."""
    every_one = all(isinstance(error, kind) for error in group.exceptions)
    return group.exceptions[0] if every_one else group
