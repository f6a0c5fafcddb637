"""Signals reach the tests as they reach a command in a terminal."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _hangups_are_not_ignored():
    """Undoes `nohup`, under which the tests themselves may run."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
