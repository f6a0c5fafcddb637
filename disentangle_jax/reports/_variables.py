"""Sheets of a model with discrete variables: classes, and latents by information."""

from collections.abc import Iterator, Mapping

import numpy as np

from disentangle_jax.reports._grids import png, sheet


def variable_figures(
    pictures: Mapping[str, np.ndarray],
) -> Iterator[tuple[str, str, str, bytes]]:
    """Yields name, title, caption and PNG of each sheet; none without such variables.

    Args:
      pictures: of an evaluated run.
    """
    if "classes" not in pictures:
        return
    groups = tuple(pictures["latent_groups"])
    continuous = len(pictures["manipulated"])
    discrete = groups[continuous:]
    labels = [
        f"c{variable}={category + 1}" if len(discrete) > 1 else f"class {category + 1}"
        for variable, size in enumerate(discrete, start=1)
        for category in range(size)
    ]
    yield (
        "classes",
        "Each class of the discrete variable",
        "A column for each test image: all of its continuous latents stay, its class "
        "is set to that of the row. Where class and style are apart, a row is one kind "
        "of thing and a column one style.",
        png(sheet(pictures["classes"], labels, discrete)),
    )
    information = pictures["manipulated_information"]
    labels = [
        f"z{latent + 1}  {nats:.2f}"
        for latent, nats in zip(pictures["manipulated"], information, strict=True)
    ]
    yield (
        "manipulations",
        "Continuous latents, by what they hold of the image",
        "One test image with one latent a row at values from -3 to 3, the class and "
        "the other latents staying. Beside each its mutual information with the image "
        "in nats, the largest first; those near 0 are pruned and change nothing.",
        png(sheet(pictures["manipulations"], labels)),
    )
