"""Type checkers know every public function: none has an argument without a type."""

import inspect

import disentangle_jax
from disentangle_jax.reports import reference


def test_public_functions_are_annotated():
    missing = []
    for package in disentangle_jax.SUBPACKAGES:
        for name, value in reference.public(getattr(disentangle_jax, package)).items():
            if not inspect.isfunction(value):
                continue
            found = inspect.signature(value)
            types = [parameter.annotation for parameter in found.parameters.values()]
            if inspect.Signature.empty in (*types, found.return_annotation):
                missing.append(f"{package}.{name}")
    assert missing == []
