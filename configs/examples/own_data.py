"""Trains a VAE on images of your own, scores its codes and loads it again.

Command::

    python configs/examples/own_data.py FOLDER

The images are squares of two colours at continuous positions, drawn here; replace
:func:`draw` by your own arrays. ``FOLDER`` gets the images (``my.npz``), the run
(``run/``, with ``report.html``) and a picture of the traversals. It takes a minute or
two on two CPU cores.
"""

import pathlib
import sys

import numpy as np
from PIL import Image

from disentangle_jax import config, evaluation, metrics, reports, training

FIELDS = (
    "--config.data.name=npz",
    "--config.model.name=fc1200",
    "--config.model.width=256",
    "--config.model.latent_dim=5",
    "--config.method.beta=1.0",
    "--config.optimizer.learning_rate=1e-3",
    "--config.eval.scores=mig,dci(estimator=forest_regression),sap,mcc",
    "--config.eval.num_train=600",
    "--config.eval.num_test=300",
)


def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns images ``[N, 32, 32, 3]`` uint8 and their factors ``[N, 3]``."""
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(count, 2))
    colours = rng.integers(2, size=count)
    images = np.zeros((count, 32, 32, 3), np.uint8)
    for image, place, colour in zip(images, places, colours):
        top, left = (16 * place).astype(int)
        image[top : top + 16, left : left + 16, 2 * colour] = 255
    return images, np.column_stack([places, colours])


def main(folder: str, *fields: str, count: int = 5000) -> metrics.Evaluation:
    """Runs the example; `fields` change the config: ``--config.train.num_steps=10``."""
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    images, factors = draw(count)
    names = np.array(["y", "x", "colour"])
    np.savez(place / "my.npz", images=images, factors=factors, factor_names=names)

    # What `disentangle --config=beta_vae --config.data.name=npz …` does.
    file = f"--config.data.options.file={place / 'my.npz'}"
    settings = config.load("beta_vae:quick", [file, *FIELDS, *fields])
    evaluation.fit(settings, place / "run")
    run = training.prepare(settings, place / "run")
    evaluation.evaluate(run)
    print(reports.score_table(place / "run"))
    print(f"report: {reports.write(place / 'run')}")

    # In a notebook, later: the dataset is not needed.
    model = evaluation.load(place / "run")
    print(model.card)
    codes = model.encode(images)
    walks = model.traverse(codes[0], codes)
    rows = [np.concatenate(list(walk), axis=1) for walk in walks]
    Image.fromarray(np.concatenate(rows)).save(place / "traversals.png")
    scores = metrics.evaluate(codes[:1000], factors[:1000], scores="mig,mcc")
    print(scores)
    return scores


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
