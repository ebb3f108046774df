"""Public keys of Ed25519 that nobody may use: the points of small order.

With such a key one signature fits many messages, so whoever names it as theirs has signed
nothing. RFC 8032 leaves it to programs to refuse them, and OpenSSL does not.
"""

from __future__ import annotations

_P = 2**255 - 19
_ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL = frozenset({0, 1, _P - 1, _P, _P + 1, _ORDER_8, _P - _ORDER_8})
"""Their y coordinates, also those that are written in another way than the usual one."""


def is_small_order(public: bytes) -> bool:
    return int.from_bytes(public, "little") % 2**255 in _SMALL
