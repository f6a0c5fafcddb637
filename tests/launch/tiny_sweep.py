"""A sweep of four models in two packs that trains in seconds.

Preset ``lost``: the first pack needs data that are not there. ``long``: more steps.
"""

from tests.training import tiny


def get_config(preset: str = ""):
    steps = 60 if preset == "long" else 4
    config = tiny.config(num_steps=steps, log_every=2, checkpoint_every=2)
    config.method.name = "beta_vae"
    config.data.name = "xysquares"
    return config


def sweep(add, preset: str = ""):
    for width in (8, 6):
        for beta in (1.0, 4.0):
            fields = {"model.width": width, "method.beta": beta, "train.seed": 3}
            if preset == "lost" and width == 8:
                fields["data.name"] = "cars3d"
            add(fields, dataset="squares", method=f"w{width}", strength=beta, seed=3)
