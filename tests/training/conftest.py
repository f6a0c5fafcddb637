"""Runs use one device unless a test asks for more: eight share the same cores."""

import pytest

from tests.training import command, tiny


@pytest.fixture
def devices(monkeypatch):
    """A function that sets how many of the virtual devices a run sees."""
    return lambda count: tiny.show_devices(monkeypatch, count)


@pytest.fixture(autouse=True)
def one_device(devices):
    devices(1)


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    yield
    command.kill_leftovers()
