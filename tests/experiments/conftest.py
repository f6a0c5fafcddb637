"""Runs of these tests use one device."""

import pytest

from tests.training import tiny


@pytest.fixture(scope="module", autouse=True)
def one_device():
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        yield
