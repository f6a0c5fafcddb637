"""Evaluates trained models: scores of codes, images and samples, and how to show them.

Synopsis::

    model = evaluation.fit(config, "runs/mine", dataset=mine)  # trains; a Trained
    model = evaluation.load("runs/mine")       # the same later, without the dataset
    codes = model.encode(images)
    images = model.decode(codes)
    scores = evaluation.evaluate(model.run)    # of a run: scores.json, pictures.npz

What is computed is up to evaluators (:func:`define`), which the method and
``config.eval.evaluators`` name.
"""

from disentangle_jax.evaluation.examples import Examples as Examples
from disentangle_jax.evaluation.examples import Seen as Seen
from disentangle_jax.evaluation.examples import training_codes as training_codes
from disentangle_jax.evaluation.exported import SUFFIX as SUFFIX
from disentangle_jax.evaluation.exported import export as export
from disentangle_jax.evaluation.exported import load_exported as load_exported
from disentangle_jax.evaluation.exported import read_card as read_card
from disentangle_jax.evaluation.generation import Generation as Generation
from disentangle_jax.evaluation.generation import check_generates as check_generates
from disentangle_jax.evaluation.generation import sample as sample
from disentangle_jax.evaluation.generation import sample_sections as sample_sections
from disentangle_jax.evaluation.loop import evaluate as evaluate
from disentangle_jax.evaluation.loop import evaluate_models as evaluate_models
from disentangle_jax.evaluation.loop import folders as folders
from disentangle_jax.evaluation.loop import is_complete as is_complete
from disentangle_jax.evaluation.protocol import GROUPED as GROUPED
from disentangle_jax.evaluation.protocol import Description as Description
from disentangle_jax.evaluation.protocol import Evaluated as Evaluated
from disentangle_jax.evaluation.protocol import Evaluator as Evaluator
from disentangle_jax.evaluation.protocol import Number as Number
from disentangle_jax.evaluation.protocol import Pair as Pair
from disentangle_jax.evaluation.protocol import check as check
from disentangle_jax.evaluation.protocol import define as define
from disentangle_jax.evaluation.protocol import describe as describe
from disentangle_jax.evaluation.protocol import describe_number as describe_number
from disentangle_jax.evaluation.protocol import evaluators as evaluators
from disentangle_jax.evaluation.protocol import get as get
from disentangle_jax.evaluation.protocol import names as names
from disentangle_jax.evaluation.sections import Animation as Animation
from disentangle_jax.evaluation.sections import Bars as Bars
from disentangle_jax.evaluation.sections import Figure as Figure
from disentangle_jax.evaluation.sections import HeatMap as HeatMap
from disentangle_jax.evaluation.sections import Lines as Lines
from disentangle_jax.evaluation.sections import Section as Section
from disentangle_jax.evaluation.sections import Sheet as Sheet
from disentangle_jax.evaluation.sections import Table as Table
from disentangle_jax.evaluation.sections import Text as Text
from disentangle_jax.evaluation.stored import REPORT as REPORT
from disentangle_jax.evaluation.stored import Row as Row
from disentangle_jax.evaluation.stored import read_arrays as read_arrays
from disentangle_jax.evaluation.stored import read_scores as read_scores
from disentangle_jax.evaluation.stored import score_rows as score_rows
from disentangle_jax.evaluation.stored import scored_factors as scored_factors
from disentangle_jax.evaluation.trained import Networks as Networks
from disentangle_jax.evaluation.trained import Trained as Trained
from disentangle_jax.evaluation.trained import check_trained as check_trained
from disentangle_jax.evaluation.trained import encode_images as encode_images
from disentangle_jax.evaluation.trained import fit as fit
from disentangle_jax.evaluation.trained import load as load
from disentangle_jax.evaluation.trained import load_models as load_models
from disentangle_jax.evaluation.watching import watch as watch
