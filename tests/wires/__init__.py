"""Every wire at work, between a scripted model and a real runner."""

import pytest

pytest.register_assert_rewrite("tests.wires.server", "tests.wires.writers")
