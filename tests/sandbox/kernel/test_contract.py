"""CPython in a process of its own does what every REPL does, with a jail and without."""

from __future__ import annotations

import pytest

from handrail.sandbox.jail import Jail, unavailable
from handrail.sandbox.kernel import KernelSandbox
from handrail.sandbox.port import ReplLimits, Sandbox
from tests.contracts.repl_contract import ReplContract

GRACE = 0.1


class TestInAProcess(ReplContract):
    kind = "process"

    @classmethod
    def make(cls, limits: ReplLimits) -> Sandbox:
        return KernelSandbox(limits, warm=0, grace=GRACE)


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
class TestInAJail(ReplContract):
    kind = "os"

    @classmethod
    def make(cls, limits: ReplLimits) -> Sandbox:
        return KernelSandbox(limits, jail=Jail.for_repl(limits), warm=0, grace=GRACE)
