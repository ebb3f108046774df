"""Fetch the weights of the embedded model, unless they are there. `make` calls it before the demo and the tests."""

from __future__ import annotations

import sys

from handrail.core.errors import ModelUnavailable
from handrail.providers.local.weights import setup


def main() -> int:
    try:
        setup(print)
    except ModelUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
