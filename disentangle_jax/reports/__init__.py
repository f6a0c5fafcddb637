"""Pictures, tables and the self-contained page of a run, drawn from its files."""

from disentangle_jax.reports import _grids as grids  # noqa: F401
from disentangle_jax.reports import _plots as plots  # noqa: F401
from disentangle_jax.reports._compare import find_runs as find_runs
from disentangle_jax.reports._compare import write_comparison as write_comparison
from disentangle_jax.reports._explorer import explore as explore
from disentangle_jax.reports._page import Figure as Figure
from disentangle_jax.reports._page import check_evaluated as check_evaluated
from disentangle_jax.reports._page import write as write
from disentangle_jax.reports._parts import Table as Table
from disentangle_jax.reports._parts import write_parts as write_parts
from disentangle_jax.reports._samples import write_samples as write_samples
from disentangle_jax.reports._tables import score_rows as score_rows
from disentangle_jax.reports._tables import score_table as score_table
