"""Signals reach the tests as they reach a command in a terminal."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _signals_are_not_ignored():
    """Undoes `nohup` and a shell's `&`, under which the tests themselves may run."""
    handlers = {
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    before = {number: signal.signal(number, h) for number, h in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
