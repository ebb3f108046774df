"""The signatures of tokens, by joserfc: one algorithm, keys of one kind, and a header that was checked before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import OKPKey
from joserfc.jws import JWSRegistry, deserialize_compact, serialize_compact
from joserfc.registry import HeaderParameter

ALGORITHM = "EdDSA"


class _OneAlgorithm(JWSRegistry):
    """EdDSA and no other.

    The library's own registry warns at each use that RFC 9864 spells it `Ed25519` now. Our keys are all
    of that curve, and the header of a token is what it is.
    """

    def get_alg(self, name: str) -> Any:
        if name != ALGORITHM:
            raise UnsupportedAlgorithmError(f"{name!r} signs no tokens")
        return self.algorithms[ALGORITHM]


_REGISTRY = _OneAlgorithm({"v": HeaderParameter("the version of the format", "int", required=True)}, [ALGORITHM])


def sign_jws(header: Mapping[str, Any], payload: bytes, seed: bytes) -> str:
    key = OKPKey.import_key(Ed25519PrivateKey.from_private_bytes(seed))
    return serialize_compact(dict(header), payload, key, registry=_REGISTRY)


def is_jws_signed_by(compact: str, public: bytes) -> bool:
    """Whether the owner of this public key signed it."""
    key = OKPKey.import_key(Ed25519PublicKey.from_public_bytes(public))
    try:
        deserialize_compact(compact, key, registry=_REGISTRY)
    except (JoseError, ValueError):
        return False
    return True
