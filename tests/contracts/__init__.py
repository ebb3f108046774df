import pytest

pytest.register_assert_rewrite("tests.contracts.bus_contract")
