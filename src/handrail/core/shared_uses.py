"""Objects that several users in a process share: whoever asks for one in use joins in, and the last user closes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet, WeakValueDictionary

T = TypeVar("T")


class SharedUse(Generic[T]):
    """Something that is in use, and by whom. Each user holds it."""

    __slots__ = ("__weakref__", "key", "users", "value")

    def __init__(self, key: Hashable, value: T) -> None:
        self.key: Hashable = key
        self.value: T = value
        self.users: WeakSet[Any] = WeakSet()


class SharedUses(Generic[T]):
    """What is in use now, by what it is asked for. A user that is collected as garbage has left."""

    def __init__(self) -> None:
        self._uses: WeakValueDictionary[Hashable, SharedUse[T]] = WeakValueDictionary()
        # The garbage collector may run anywhere in `join`, and what it collects may leave there, in the same thread.
        self._lock = threading.RLock()

    def join(self, key: Hashable, user: object, made: T, fits: Callable[[T], bool]) -> SharedUse[T]:
        """Use what others use under this key, if it fits; else `made`, which others may join from then on."""
        key = os.getpid(), key  # a child that was forked cannot go on with the connections and threads of its parent
        with self._lock:
            while (use := self._uses.get(key)) is not None and fits(use.value):
                use.users.add(user)
                if self._uses.get(key) is use:  # else its last user was collected before, and closes it
                    return use
            use = SharedUse(key, made)
            use.users.add(user)
            self._uses[key] = use
            return use

    def leave(self, use: SharedUse[T], user: object) -> bool:
        """Use it no more. True if nobody else does, and so the caller has to close it."""
        with self._lock:
            use.users.discard(user)
            if use.users:
                return False
            if self._uses.get(use.key) is use:
                del self._uses[use.key]
            return True
