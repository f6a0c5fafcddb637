"""The committed table of compiled programs agrees with the README."""

import pytest

from launch import tpu_table


def test_committed_table_agrees_with_the_readme():
    """The committed table has the figures that the README states."""
    rows = tpu_table.read_table(tpu_table.TABLE)

    def row(name, lanes=1, topology="v5e:1x1", changes=""):
        wanted = (name, str(lanes), topology, changes)
        keys = ("name", "lanes", "topology", "changes")
        (found,) = [r for r in rows if tuple(r[k] for k in keys) == wanted]
        return found

    for name in ("conv64", "sae-12"):
        assert 1 / 1.25 < float(row(name)["padding_waste"]) < 1.25
    one, many = row("conv64"), row("conv64", 32)
    assert float(many["flops_per_model"]) < 1.3 * float(one["flops_per_model"])
    assert float(many["bytes_per_model"]) < 1.5 * float(one["bytes_per_model"])
    far = row("conv64", 1, "v5e:16x16")
    # The kernels next to the image are summed as those of blocks, [2, 2, 16, 128].
    blocks = 2 * 4 * (2 * 2 * 16 * 128 - 4 * 4 * 32)
    assert float(far["all_reduce_bytes"]) == pytest.approx(
        float(far["gradient_bytes"]) + blocks, rel=0.001
    )
    for column in ("flops", "bytes"):
        assert float(far[column]) == pytest.approx(float(one[column]), rel=0.05)
    assert row("conv64", changes="train.input=device")["host_bytes"] == "0"
    # Chips that hold different lanes do not communicate.
    assert float(row("conv64", 32, "v5e:2x2")["all_reduce_bytes"]) == 0
    # A loss that couples the batch gathers three arrays (mean, log-variance, inverse
    # variance) of all 16,384 rows forward, gathers them again where the backward pass
    # recomputes the pairs, and sums their gradients.
    coupled = row("beta_tc_vae", 1, "v5e:16x16")
    gathered = 3 * 3 * 16384 * 10 * 4
    assert float(coupled["all_reduce_bytes"]) == pytest.approx(
        float(coupled["gradient_bytes"]) + blocks + gathered, rel=0.001
    )
