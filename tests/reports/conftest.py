"""Runs of these tests use one device, also those of fixtures of a module."""

import pytest

from tests.training import tiny


@pytest.fixture(scope="module", autouse=True)
def one_device():
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        yield
