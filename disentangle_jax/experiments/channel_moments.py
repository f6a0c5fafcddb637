"""Mean and standard deviation of the channels of datasets, which standardise images.

Michlo et al., "Overlooked Implications of the Reconstruction Loss", App. B.4 and Table
2 of the supplement. Trains nothing.
"""

from disentangle_jax import data, reports
from disentangle_jax.experiments import overlooked, protocol, published


@protocol.define(
    question="By which moments are the images of each dataset standardised?",
    reference="Michlo et al., Overlooked Implications of the Reconstruction Loss for "
    "VAE Disentanglement, App. B.4, Table 2 of the supplement",
    options={
        "datasets": ("xysquares", "rendered_dsprites", "rendered_shapes3d"),
        "images": 0,
    },
)
class ChannelMoments(protocol.Protocol):
    """A table of measured and published moments."""

    def stages(self, config, workdir):
        protocol.check_given(config, "datasets")
        for name in config.experiment.datasets:
            overlooked.load(config, name)  # A missing file is reported before any work.
        return []

    def result(self, config, workdir, models):
        options = config.experiment
        values, rows = {}, []
        for number, name in enumerate(options.datasets, start=1):
            print(f"dataset {number} of {len(options.datasets)}: {name}", flush=True)
            dataset = overlooked.load(config, name)
            step = len(dataset) // options.images if options.images else 1
            chosen = dataset.indices[:: max(step, 1)]
            mean, deviation = data.channel_moments(dataset, indices=chosen)
            values[name] = {
                "mean": mean.tolist(),
                "standard_deviation": deviation.tolist(),
                "images": len(chosen),
            }
            paper = data.describe(published.original(name)).moments or ((), ())
            for channel, measured in enumerate(zip(mean, deviation)):
                of_paper = [f"{m[channel]:.6f}" if m else "-" for m in paper]
                own = [f"{value:.6f}" for value in measured]
                rows.append([name, str(channel + 1), *own, *of_paper])
        table = reports.Table(
            "moments",
            "Mean and standard deviation of each channel",
            "Of images in [0, 1]: the mean over images of each image's moments, beside "
            "those of the paper. Models are trained with the paper's where "
            "`data.standardize` is set.",
            ("dataset", "channel", "mean", "deviation", "paper: mean", "deviation"),
            rows,
        )
        lines = overlooked.notes(options.datasets)
        if options.images:
            lines.append(f"About {options.images} images of each dataset, not all.")
        parts = [table, protocol.deviations(*lines)]
        return protocol.Result("Moments of channels", values, parts)
