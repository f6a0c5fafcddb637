"""Scores of images: FID, KID, precision and recall."""

from disentangle_jax.metrics.images.distances import fid as fid
from disentangle_jax.metrics.images.distances import kid as kid
from disentangle_jax.metrics.images.distances import (
    precision_recall as precision_recall,
)
from disentangle_jax.metrics.images.features import (
    FeatureStatistics as FeatureStatistics,
)
from disentangle_jax.metrics.images.features import (
    check_inception_weights as check_inception_weights,
)
from disentangle_jax.metrics.images.features import (
    feature_statistics as feature_statistics,
)
from disentangle_jax.metrics.images.features import (
    inception_features as inception_features,
)
