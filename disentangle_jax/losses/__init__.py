"""Terms and objectives of disentanglement research, as pure functions of arrays."""

from disentangle_jax.losses._kl import capacity_kl as capacity_kl
from disentangle_jax.losses._kl import gaussian_kl as gaussian_kl
from disentangle_jax.losses._kl import gaussian_kl_per_dim as gaussian_kl_per_dim
from disentangle_jax.losses._kl import linear_capacity as linear_capacity
from disentangle_jax.losses._kl import normalize_beta as normalize_beta
from disentangle_jax.losses._kl import sampled_gaussian_kl as sampled_gaussian_kl
from disentangle_jax.losses._kl import unnormalize_beta as unnormalize_beta
from disentangle_jax.losses._objectives import ae as ae
from disentangle_jax.losses._objectives import beta_vae as beta_vae
from disentangle_jax.losses._objectives import vae as vae
from disentangle_jax.losses._reconstruction import (
    bernoulli_reconstruction as bernoulli_reconstruction,
)
from disentangle_jax.losses._reconstruction import box_blur_mse as box_blur_mse
from disentangle_jax.losses._reconstruction import (
    gaussian_reconstruction as gaussian_reconstruction,
)
from disentangle_jax.losses._reconstruction import (
    l1_reconstruction as l1_reconstruction,
)
from disentangle_jax.losses._reconstruction import mse as mse
from disentangle_jax.losses._reconstruction import (
    multinomial_reconstruction as multinomial_reconstruction,
)
