"""Training: from a config to checkpoints, one model or many lanes at once.

Synopsis::

    run = training.prepare(config, workdir)  # every check, nothing compiled
    training.train(run)                      # resumes from the newest checkpoint
    scores = evaluation.evaluate(run)        # scores.json, pictures.npz
"""

from disentangle_jax.training.checkpoint import (
    UnreadableCheckpoint as UnreadableCheckpoint,
)
from disentangle_jax.training.compilation import keep_freed_memory as keep_freed_memory
from disentangle_jax.training.compilation import (
    use_compilation_cache as use_compilation_cache,
)
from disentangle_jax.training.export import export_lane as export_lane
from disentangle_jax.training.lanes import check_lanes as check_lanes
from disentangle_jax.training.lanes import take as take
from disentangle_jax.training.logging import Progress as Progress
from disentangle_jax.training.logging import duration as duration
from disentangle_jax.training.logging import last_row as last_row
from disentangle_jax.training.logging import read_metrics as read_metrics
from disentangle_jax.training.loop import Interrupted as Interrupted
from disentangle_jax.training.loop import NonFiniteLoss as NonFiniteLoss
from disentangle_jax.training.loop import Watch as Watch
from disentangle_jax.training.loop import stop_on_signals as stop_on_signals
from disentangle_jax.training.loop import train as train
from disentangle_jax.training.memory import TooLarge as TooLarge
from disentangle_jax.training.memory import check_memory as check_memory
from disentangle_jax.training.processes import join_processes as join_processes
from disentangle_jax.training.provenance import recipe as recipe
from disentangle_jax.training.run import Run as Run
from disentangle_jax.training.run import load_split as load_split
from disentangle_jax.training.run import prepare as prepare
from disentangle_jax.training.schedules import scheduled as scheduled
from disentangle_jax.training.states import restore as restore
from disentangle_jax.training.stored_runs import describe_dataset as describe_dataset
from disentangle_jax.training.stored_runs import described_run as described_run
from disentangle_jax.training.stored_runs import open_run as open_run
from disentangle_jax.training.workdir import InUse as InUse
from disentangle_jax.training.workdir import check_workdir as check_workdir
from disentangle_jax.training.workdir import check_writable as check_writable
from disentangle_jax.training.workdir import has_checkpoint as has_checkpoint
from disentangle_jax.training.workdir import read_config as read_config
from disentangle_jax.training.workdir import start_workdir as start_workdir
from disentangle_jax.training.workdir import writing as writing
