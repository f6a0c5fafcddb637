"""Runs of these tests use one device."""

import pytest

from tests.training import tiny


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    tiny.show_devices(monkeypatch, 1)
