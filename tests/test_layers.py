"""Nothing imports upwards, and light imports stay light."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "disentangle_jax"

# A room may import from its own layer and those below.
LAYERS = (
    {"types"},
    {"distributions"},
    {"losses", "sampling", "models", "metrics"},
    {"data", "methods"},
    {"training"},
    {"experiments", "reports"},
    {"config", "sweep", "main"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

# Heavy libraries and the only rooms that may import them.
OWNERS = {
    "tensorflow": {"data"},
    "tensorflow_datasets": {"data"},
    "orbax": {"training"},
}


def room_of(path: pathlib.Path) -> str:
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
    room = room_of(path)
    assert room in LEVEL, f"{room} is not a room of the house"
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] == "disentangle_jax" and len(parts) > 1 and parts[1] in LEVEL:
            assert LEVEL[parts[1]] <= LEVEL[room], f"{room} imports {name}"
        assert parts[0] not in ("configs", "launch"), f"{room} imports {name}"
        if parts[0] in OWNERS:
            assert room in OWNERS[parts[0]], f"{room} imports {name}"


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
