"""Where the batches of a run come from."""

import jax
import numpy as np
import pytest

from disentangle_jax import data, training
from tests.training import tiny


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "device"), (10**9, "device"), (10**9 + 1, "stream"), (None, "stream")],
)
def test_auto_input_is_on_the_device_where_it_fits(
    size, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(data, "device_bytes", lambda dataset: size)
    config = tiny.config(input="auto")
    assert training.prepare(config, tmp_path).config.train.input == expected
    assert config.train.input == "auto"


def test_auto_input_streams_what_only_a_stream_has(tmp_path):
    config = tiny.topics(train__input="auto")
    assert training.prepare(config, tmp_path).config.train.input == "stream"


def test_auto_input_is_the_run_with_the_input_it_chose(tmp_path):
    def trained(name, where, steps):
        config = tiny.config(num_steps=steps, checkpoint_every=2, input=where)
        return training.train(training.prepare(config, tmp_path / name)).state.params

    whole = trained("whole", "auto", 4)
    trained("resumed", "auto", 2)
    for same in (trained("resumed", "auto", 4), trained("device", "device", 4)):
        jax.tree.map(np.testing.assert_array_equal, whole, same)
