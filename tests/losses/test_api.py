"""Public names, their arguments and their documentation."""

import inspect
import re

import pytest

from disentangle_jax import distributions, losses

HELPERS = {"linear_capacity", "normalize_beta", "unnormalize_beta", "per_pixel"}

# Fixed names and arguments: positional ones in order, then keywords.
SIGNATURES = {
    "bernoulli_reconstruction": "x logits * subtract_entropy",
    "gaussian_reconstruction": "x x_hat",
    "mse": "x x_hat",
    "l1_reconstruction": "x x_hat",
    "multinomial_reconstruction": "counts logits",
    "box_blur_mse": "x x_hat * radius weight",
    "gaussian_kl": "mean log_var",
    "gaussian_kl_per_dim": "mean log_var",
    "capacity_kl": "kl * gamma capacity axis_name",
    "aggregate_log_densities": "pairwise * dataset_size estimator groups axis_name",
    "log_q_marginals": "z mean log_var * dataset_size estimator groups axis_name",
    "kl_decomposition": "z mean log_var * dataset_size estimator groups axis_name",
    "total_correlation": "z mean log_var * dataset_size estimator groups axis_name",
    "hfvae_terms": "pairwise log_p_elements * dataset_size groups log_p_groups "
    "log_p_joint estimator axis_name",
    "density_ratio_tc": "critic_logits",
    "discriminator_loss": "joint_logits permuted_logits",
    "dip_penalty": "mean log_var * kind lambda_od lambda_d axis_name",
    "gaussian_total_correlation": "codes",
    "mmd": "x y * kernel scale axis_name",
    "ada_gvae_posteriors": "mean1 log_var1 mean2 log_var2 * distance average ratio",
    "adversarial_prior_losses": "",
    "relation_loss": "",
    "supervised_alignment": "",
}
OBJECTIVES = [
    "ae",
    "vae",
    "beta_vae",
    "annealed_vae",
    "beta_tc_vae",
    "factor_vae",
    "dip_vae",
    "info_vae",
    "wae",
    "hfvae",
    "anchor_vae",
    "information_dropout",
    "vlae",
    "ada_gvae",
    "ada_ml_vae",
    "abs_ae",
    "bio_ae",
    "slow_vae",
    "qlae",
    "tripod",
]
for _name in OBJECTIVES:
    SIGNATURES[_name] = "x logits z mean log_var * reconstruction axis_name"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    parameters = inspect.signature(getattr(losses, name)).parameters
    positional, _, keywords = SIGNATURES[name].partition("*")
    have = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert have[: len(positional.split())] == positional.split()
    for keyword in keywords.split():
        assert parameters[keyword].kind is inspect.Parameter.KEYWORD_ONLY


def public_functions(module):
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and name[0] != "_"
    ]


# Arguments that the docstring of the package explains for all functions.
SHARED = set(re.findall(r"^  (\w+): ", losses.__doc__, flags=re.MULTILINE))


def check_arguments(function):
    """Every argument is annotated and explained, or refers to its explanation."""
    text = re.sub(r"\n {4,}", " ", inspect.getdoc(function))  # Joins wrapped lines.
    entries = re.findall(r"^  ((?:\*?\w+, )*\*?\w+): (.*)", text, flags=re.MULTILINE)
    explained = {
        name.strip("*"): meaning
        for names, meaning in entries
        for name in names.split(", ")
    }
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert parameter.name in explained, f"{parameter} is not explained"
        if explained[parameter.name].startswith("see :mod:`losses`"):
            assert parameter.name in SHARED, f"{parameter} is not explained"


@pytest.mark.parametrize("name", public_functions(losses))
def test_documentation(name):
    function = getattr(losses, name)
    check_arguments(function)
    if name not in ("likelihood", "likelihoods"):
        assert "Args:" in function.__doc__ and "Returns:" in function.__doc__
        assert name in HELPERS or "Couples the batch:" in function.__doc__


@pytest.mark.parametrize("name", public_functions(distributions))
def test_documentation_of_distributions(name):
    function = getattr(distributions, name)
    check_arguments(function)
    assert "Returns:" in inspect.getdoc(function)
