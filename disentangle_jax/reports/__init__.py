"""Pictures, tables and self-contained pages of runs, drawn from their files."""

from disentangle_jax.evaluation import score_rows as score_rows
from disentangle_jax.evaluation.sections import Figure as Figure
from disentangle_jax.evaluation.sections import Table as Table
from disentangle_jax.evaluation.sections import Text as Text
from disentangle_jax.reports import grids as grids
from disentangle_jax.reports import plots as plots
from disentangle_jax.reports.compare import find_runs as find_runs
from disentangle_jax.reports.compare import write_comparison as write_comparison
from disentangle_jax.reports.drawing import draw as draw
from disentangle_jax.reports.drawing import write_parts as write_parts
from disentangle_jax.reports.explorer import explore as explore
from disentangle_jax.reports.page import check_evaluated as check_evaluated
from disentangle_jax.reports.page import is_drawn as is_drawn
from disentangle_jax.reports.page import write as write
from disentangle_jax.reports.samples import write_samples as write_samples
from disentangle_jax.reports.scores import score_table as score_table
