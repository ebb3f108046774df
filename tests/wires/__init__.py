"""Every wire at work, between a scripted model and a real runner."""

import pytest

pytest.register_assert_rewrite("tests.wires.scripted_service", "tests.wires.writers")
