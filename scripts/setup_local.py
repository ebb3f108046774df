"""Fetch the weights of the embedded model, unless they are there. `make` calls it before the demo and the tests."""

from __future__ import annotations

import sys

from handrail.core.errors import ModelUnavailable
from handrail.models.local.weights import setup_weights


def main() -> int:
    try:
        setup_weights(print)
    except ModelUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
