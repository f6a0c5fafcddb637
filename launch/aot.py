"""Compiles the training step for TPUs, without having one, and reports its cost.

    python -m launch.aot --config=FILE[:PRESET] --topology=v5e:2x2 [--lanes=32]
    python -m launch.aot --table

  --config=configs/beta_vae.py    config, as for disentangle_jax.main
  --config.SECTION.FIELD=VALUE    changes a field, e.g. --config.train.input=device
  --topology=v5e:2x2              generation and shape of the slice; v5e:1x1 is one chip
  --lanes=32                      number of models (seeds) of one program
  --table                         completes launch/tpu_table.csv: compiles the rows that
                                  are missing or were made with other versions of jax
                                  and libtpu. Delete the file to compile all rows. This
                                  takes hours on two cores, and continues if
                                  interrupted.

The command needs the TPU compiler (``pip install disentangle_jax[tpu]``) and no TPU.
All figures are for one step on one chip, from the compiled program:

* flops: XLA's cost analysis of the compiled module.
* bytes: read and written by its instructions, in HBM and on-chip memory; those of HBM
  are also shown separately (see ``launch/hlo.py``).
* memory: the peak of arguments, results and temporaries.
* bound: the least time that flops / peak and HBM bytes / bandwidth allow.
* estimate: the compiler's estimate of the cycles of all fusions, without collectives.
* padding waste: flops divided by those that the products of the model need
  (`costs.analytic_flops`).
"""

import argparse
import sys

from . import chips  # isort: skip  # It sets the environment that jax reads.

import jax

from disentangle_jax import config as config_lib

from . import costs, tpu_table


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that all errors are reported in one way."""

    def error(self, message: str):
        raise ValueError(f"{message}; see --help.")


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(argv):
        print(__doc__.strip())
        return 0
    # The compiled programs never run; the code that builds them runs on the CPU.
    jax.config.update("jax_platforms", "cpu")
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--topology", default="v5e:1x1")
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    overrides = [arg for arg in argv if arg.startswith("--config.")]
    try:
        args = parser.parse_args([arg for arg in argv if arg not in overrides])
        if args.table:
            chips.devices("v5e:1x1")  # Raises if the compiler is missing.
            tpu_table.draw_table(tpu_table.TABLE)
            return 0
        if args.config is None:
            raise ValueError("--config=FILE or --table is required; see --help.")
        if args.lanes < 0:
            raise ValueError(f"--lanes: must be positive, got {args.lanes}.")
        config = config_lib.load(args.config, overrides)
        run = costs.prepare(config, args.topology, args.lanes)
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        cost = costs.cost_of_run(run)
    except jax.errors.JaxRuntimeError as error:  # E.g. too little memory.
        print(f"error: the compiler says {error}", file=sys.stderr)
        return 1
    print(costs.report(run, cost, args.topology))
    return 0


if __name__ == "__main__":
    sys.exit(main())
