"""A reader of XLA's HLO text, which describes a compiled program.

A compiled module is a list of computations; the entry calls the others. Every array
has a layout, for example ``f32[64,10]{0,1:T(8,128)S(1)}``: dimension 0 is the most
minor, incomplete tiles of 8×128 are padded, and memory space 1 is the on-chip vector
memory (0, which is omitted, is HBM).
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "collective-permute",
    "all-to-all",
)

_ARRAY = re.compile(r"\b(pred|token|[a-z]+(\d+)\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(
    r"(?:body|condition|to_apply|calls|called_computations|branch_computations|"
    r"true_computation|false_computation)=\{?((?:%[\w.\-]+(?:, )?)+)"
)
# These instructions move no data.
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while")
    + ("conditional", "call", "after-all", "partition-id", "replica-id", "iota")
)
_SLICES = ("dynamic-slice", "slice", "gather")


class Array(NamedTuple):
    """Type and layout of one array.

    Attributes:
      itemsize: bytes per element.
      dims: shape.
      minor_to_major: order of the dimensions in memory, the fastest first.
      tile: sizes of the tile of the most minor dimensions; may be empty.
      space: number of its memory space; 0 is HBM.
    """

    itemsize: float
    dims: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    tile: tuple[int, ...]
    space: int

    @property
    def bytes(self) -> float:
        """Bytes of the elements."""
        return self.itemsize * math.prod(self.dims)

    @property
    def padded_bytes(self) -> float:
        """Bytes in memory, where incomplete tiles are padded."""
        order = self.minor_to_major or tuple(reversed(range(len(self.dims))))
        sizes = [self.dims[axis] for axis in order]  # The most minor first.
        sizes += [1] * (len(self.tile) - len(sizes))
        for i, side in enumerate(reversed(self.tile)):
            sizes[i] = -(-sizes[i] // side) * side
        return self.itemsize * math.prod(sizes)


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
      name: unique in its computation.
      opcode: name of the operation.
      arrays: results; several if the result is a tuple.
      operands: names of the instructions whose results it reads.
      text: the complete line.
    """

    name: str
    opcode: str
    arrays: tuple[Array, ...]
    operands: tuple[str, ...]
    text: str


class Module(NamedTuple):
    """A compiled module.

    Attributes:
      entry: name of the computation that runs first.
      computations: instructions by computation and name.
    """

    entry: str
    computations: dict[str, dict[str, Instruction]]


def arrays(shape: str) -> tuple[Array, ...]:
    """Parses the text of a type, which may be a tuple."""
    found = []
    for kind, bits, dims, layout in _ARRAY.findall(shape):
        if kind == "token":
            continue
        order, _, rest = layout.partition(":")
        tile = re.search(r"T\(([\d,]+)\)", rest)
        space = re.search(r"S\((\d+)\)", rest)
        found.append(
            Array(
                1 if kind == "pred" else int(bits) / 8,
                tuple(int(d.lstrip("<=")) for d in dims.split(",") if d),
                tuple(int(d) for d in order.split(",") if d),
                tuple(int(d) for d in tile[1].split(",")) if tile else (),
                int(space[1]) if space else 0,
            )
        )
    return tuple(found)


def parse(text: str) -> Module:
    """Parses the text of ``compiled.as_text()``."""
    computations: dict[str, dict[str, Instruction]] = {}
    entry, current = "", {}
    for line in text.splitlines():
        if not line.startswith(" "):
            if head := _COMPUTATION.match(line):
                current = computations[head[2]] = {}
                entry = head[2] if head[1] else entry
        elif match := _INSTRUCTION.match(line):
            instruction = _instruction(match[1], match[2])
            current[instruction.name] = instruction
    if not entry:
        raise ValueError("hlo.parse: `text` must be an HLO module, and has no ENTRY.")
    return Module(entry, computations)


def executed(module: Module) -> Iterator[tuple[dict[str, Instruction], str, int]]:
    """Yields ``(computation, name of the instruction, number of executions)``.

    A fusion counts as one instruction. A loop that counts to a constant, as ``scan``
    and ``map`` do, counts as often as it runs; other loops and each branch count once.
    """

    def walk(name: str, times: int) -> Iterator:
        computation = module.computations[name]
        for instruction in computation.values():
            yield computation, instruction.name, times
            if instruction.opcode in ("while", "call", "conditional"):
                inner = times * _trips(module, instruction)
                for called in _CALLED.findall(instruction.text):
                    for part in re.findall(r"%([\w.\-]+)", called):
                        yield from walk(part, inner)

    yield from walk(module.entry, 1)


def _trips(module: Module, loop: Instruction) -> int:
    """Returns how often the body of a loop runs; 1 if that is unknown."""
    condition = re.search(r"condition=%([\w.\-]+)", loop.text)
    if not condition:
        return 1
    tested = module.computations[condition[1]]
    *_, root = tested.values()
    for operand in root.operands:
        limit = re.search(r"constant\((\d+)\)", tested[operand].text)
        if limit and root.opcode == "compare" and "direction=LT" in root.text:
            return int(limit[1])
    return 1


def collectives(module: Module) -> dict[str, tuple[int, float]]:
    """Returns the number and the bytes of the collectives of each kind.

    Bytes are those of the results on one chip, without padding.
    """
    found: dict[str, tuple[int, float]] = {}
    for computation, name, times in executed(module):
        instruction = computation[name]
        kind = instruction.opcode.removesuffix("-start")
        if kind not in COLLECTIVES:
            continue
        results = instruction.arrays
        if instruction.opcode == "all-gather-start":
            results = results[len(results) // 2 :]  # The operands come first.
        elif instruction.opcode == "collective-permute-start":
            results = results[1:2]
        count, total = found.get(kind, (0, 0.0))
        moved = sum(array.bytes for array in results)
        found[kind] = (count + times, total + times * moved)
    return found


def accessed_bytes(module: Module, *, hbm_only: bool) -> float:
    """Returns the bytes that a program's instructions read and write.

    This is the sum of operands and results, with padding, over all executed
    instructions. For an array that is only sliced, the slices count; for an array that
    is updated in place, the update counts. XLA's "bytes accessed" is the same, except
    that here every iteration of a loop counts.

    Args:
      module: the program.
      hbm_only: whether to omit arrays in on-chip memory.
    """
    size = _in_hbm if hbm_only else _anywhere
    total = 0.0
    for computation, name, times in executed(module):
        total += times * _traffic(module, computation, computation[name], size)
    return total


def _anywhere(array: Array) -> float:
    return array.padded_bytes


def _in_hbm(array: Array) -> float:
    return 0.0 if array.space else array.padded_bytes


def _traffic(
    module: Module,
    computation: dict[str, Instruction],
    instruction: Instruction,
    size: Callable[[Array], float],
) -> float:
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith("-done"):
        return 0.0
    if opcode == "slice-start":
        # Its arrays are ((source), destination, …); it reads as much as it writes.
        source, destination = instruction.arrays[:2]
        return size(destination) + size(destination._replace(space=source.space))
    if opcode.endswith("-start"):  # These list operands among their results.
        return sum(map(size, instruction.arrays))
    operands = [computation[o] for o in instruction.operands if o in computation]
    if opcode == "fusion":
        inside = _called(module, instruction)
        total, updated, seen = 0.0, 0.0, set()
        for number, operand in enumerate(operands):
            if operand.name not in seen and operand.arrays:
                seen.add(operand.name)
                space = operand.arrays[0].space
                read, replaced = _reads(module, inside, number, space, size)
                whole = sum(map(size, operand.arrays))
                total += whole if read is None else read
                updated += replaced
        return total + max(sum(map(size, instruction.arrays)) - updated, 0.0)
    if opcode in _SLICES:
        return 2 * sum(map(size, instruction.arrays))
    if opcode == "dynamic-update-slice":
        return 2 * sum(map(size, operands[1].arrays))
    distinct = {operand.name: operand for operand in operands}.values()
    return sum(size(a) for i in (instruction, *distinct) for a in i.arrays)


def _called(module: Module, fusion: Instruction) -> dict[str, Instruction]:
    return module.computations[re.search(r"calls=%([\w.\-]+)", fusion.text)[1]]


def _reads(
    module: Module,
    inside: dict[str, Instruction],
    number: int,
    space: int,
    size: Callable[[Array], float],
) -> tuple[float | None, float]:
    """Returns how many bytes of its operand `number` a fusion reads and replaces.

    The first is None if it reads the complete array. The second counts the bytes of
    results that are in-place updates of the operand.
    """
    text = f"parameter({number})"
    name = next(n for n, i in inside.items() if text in i.text)
    *_, result = inside
    names, read, replaced = [name], 0.0, 0.0
    for current in names:
        if current == result:  # It is returned as it is.
            return None, 0.0
        for user in inside.values():
            if current not in user.operands:
                continue
            if user.opcode == "bitcast":
                names.append(user.name)
            elif user.opcode in _SLICES and user.operands[0] == current:
                read += sum(size(a._replace(space=space)) for a in user.arrays)
            elif user.opcode == "dynamic-update-slice" and user.operands[0] == current:
                update = inside[user.operands[1]].arrays
                read += sum(size(a._replace(space=space)) for a in update)
                replaced += sum(size(a._replace(space=space)) for a in user.arrays)
            elif user.opcode == "fusion":
                place = user.operands.index(current)
                part, part_replaced = _reads(
                    module, _called(module, user), place, space, size
                )
                if part is None:
                    return None, 0.0
                read, replaced = read + part, replaced + part_replaced
            else:
                return None, 0.0
    return read, replaced


def estimated_cycles(module: Module) -> int:
    """Returns the compiler's estimate of the cycles of all fusions.

    Copies and collectives, which may overlap with fusions, are not included.
    """
    total = 0
    for computation, name, times in executed(module):
        cycles = re.search(r'"estimated_cycles":"(\d+)"', computation[name].text)
        total += times * int(cycles[1]) if cycles else 0
    return total


def _instruction(name: str, rest: str) -> Instruction:
    end = rest.index(" ")
    if rest.startswith("("):
        end = _closing(rest, 0) + 1
    opening = rest.index("(", end)
    closing = _closing(rest, opening)
    return Instruction(
        name,
        rest[end:opening].strip(),
        arrays(rest[:end]),
        tuple(re.findall(r"%([\w.\-]+)", rest[opening:closing])),
        rest,
    )


def _closing(text: str, opening: int) -> int:
    """Returns the index of the parenthesis that closes the one at `opening`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, opening):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.start()
    raise ValueError(f"hlo.parse: unclosed parenthesis in {text[:80]!r}.")
