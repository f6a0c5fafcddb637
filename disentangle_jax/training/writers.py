"""Where the rows of ``metrics.jsonl`` are also sent: TensorBoard, Weights & Biases.

``train.writers`` names them. A writer gets the numbers of a row and, with
``eval.every``, images.
"""

import io
import json
import os
import pathlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

import ml_collections
import numpy as np
from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from disentangle_jax import files
from disentangle_jax.types import unknown_name


class Writer(Protocol):
    """What a writer of one model provides."""

    def __init__(
        self,
        workdir: pathlib.Path,
        config: ml_collections.ConfigDict,
        *,
        start_step: int,
    ):
        """Begins to write, or continues after `start_step` steps."""

    def write(
        self, step: int, values: Mapping[str, float], images: Mapping[str, np.ndarray]
    ) -> None:
        """Writes numbers and uint8 images ``[H, W, C]`` by their names."""

    def close(self) -> None:
        """Ends writing."""


class TensorBoard:
    """Event files in the folder ``tensorboard`` of a model, open only for a row."""

    def __init__(
        self,
        workdir: pathlib.Path,
        config: ml_collections.ConfigDict,
        *,
        start_step: int,
    ):
        del config
        folder = workdir / "tensorboard"
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        self._events = folder / name
        self._write_event(Event(file_version="brain.Event:2"))
        if start_step:
            # Makes TensorBoard drop what came after the step that we resume from.
            session = SessionLog(status=SessionLog.START)
            self._write_event(Event(step=start_step + 1, session_log=session))

    def write(
        self, step: int, values: Mapping[str, float], images: Mapping[str, np.ndarray]
    ) -> None:
        shown = [Summary.Value(tag=k, simple_value=v) for k, v in values.items()]
        shown += [Summary.Value(tag=k, image=_png(v)) for k, v in images.items()]
        self._write_event(Event(step=step, summary=Summary(value=shown)))

    def close(self) -> None:
        """Does nothing: every row is on disk."""

    def _write_event(self, event: Event) -> None:
        event.wall_time = time.time()
        with self._events.open("ab") as file:
            RecordWriter(file).write(event.SerializeToString())


def _png(image: np.ndarray) -> Summary.Image:
    height, width, channels = image.shape
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if channels == 1 else image).save(buffer, "png")
    return Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=buffer.getvalue(),
    )


class WeightsAndBiases:
    """A run of Weights & Biases per model, in the folder of the model.

    Its variables apply: ``WANDB_MODE=offline`` keeps the run on disk, for ``wandb
    sync``; ``WANDB_PROJECT`` names the project (``disentangle_jax`` by default). The
    lanes of a run are a group. A resumed run continues its own, by the identifier in
    ``wandb_id``; W&B ignores the steps that it has already.
    """

    def __init__(
        self,
        workdir: pathlib.Path,
        config: ml_collections.ConfigDict,
        *,
        start_step: int,
    ):
        del start_step
        import wandb

        self._image = wandb.Image
        known = workdir / "wandb_id"
        if not known.exists():
            files.write_text(known, uuid.uuid4().hex)
        place = workdir.resolve()
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "disentangle_jax"),
            dir=str(workdir),
            id=known.read_text(),
            resume="allow",
            reinit="create_new",  # Lanes have a run each, at once.
            name=place.name,
            group=place.parents[1].name if place.parent.name == "lanes" else None,
            config=json.loads(config.to_json()),
        )

    def write(
        self, step: int, values: Mapping[str, float], images: Mapping[str, np.ndarray]
    ) -> None:
        shown = {name: self._image(image) for name, image in images.items()}
        self._run.log({**values, **shown}, step=step)

    def close(self) -> None:
        self._run.finish()


_WRITERS: dict[str, type[Writer]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def check(names: Sequence[str]) -> None:
    """Raises a ValueError where ``train.writers`` has a name that cannot be used."""
    for name in names:
        if name not in _WRITERS:
            raise unknown_name("config", "train.writers", name, _WRITERS)
    if "wandb" in names:
        try:
            # A folder called wandb, which W&B itself makes, is importable but empty.
            from wandb import init as _init  # noqa: F401
        except ImportError:
            raise ValueError(
                "config: `train.writers` has 'wandb', which is not installed; run "
                "pip install 'disentangle_jax[wandb]'."
            ) from None


def create(
    workdir: pathlib.Path, config: ml_collections.ConfigDict, *, start_step: int
) -> list[Writer]:
    """Returns the writers of a model that ``train.writers`` names."""
    return [
        _WRITERS[name](workdir, config, start_step=start_step)
        for name in config.train.writers
    ]
