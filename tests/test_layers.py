"""Nothing imports upwards, and light imports stay light."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "disentangle_jax"

# A package may import from its own layer and those below.
LAYERS = (
    {"types", "registry", "files", "claims", "batching", "config", "fusion"},
    {"distributions"},
    {"losses", "sampling", "models", "metrics"},
    {"data", "methods"},
    {"rows"},
    {"training"},
    {"evaluation"},
    {"reports"},
    {"experiments"},
    {"sweep", "zoo"},
    {"commands", "main", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Heavy libraries and the only packages that may import them.
OWNERS = {
    "tensorflow": {"data"},
    "tensorflow_datasets": {"data"},
    "orbax": {"training"},
}


def package_of(path: pathlib.Path) -> str:
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


def imported_modules(path: pathlib.Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_upward_import(path):
    package = package_of(path)
    assert package in LEVEL, f"{package} is in no layer"
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] == "disentangle_jax" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= LEVEL[package], f"{package} imports {name}"
        assert parts[0] not in ("configs", "launch"), f"{package} imports {name}"
        if parts[0] in OWNERS:
            assert package in OWNERS[parts[0]], f"{package} imports {name}"


def test_losses_need_only_jax_and_numpy():
    for path in (PACKAGE / "losses").rglob("*.py"):
        for name in imported_modules(path):
            root = name.split(".")[0]
            assert root in {"jax", "numpy", "disentangle_jax"} | set(
                sys.stdlib_module_names
            ), f"{path.name} imports {name}"


def test_light_imports():
    code = (
        "import sys, disentangle_jax, disentangle_jax.losses\n"
        "heavy = {'tensorflow', 'orbax', 'sklearn', 'matplotlib', 'flax', 'optax'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
