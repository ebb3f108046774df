"""`python -m handrail`: the same as the command `handrail`."""

from __future__ import annotations

import sys

from handrail.cli import main

sys.exit(main())
