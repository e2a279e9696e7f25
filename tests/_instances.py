"""Every synthesizer with cheap parameters, and each way of training once; their fits.

`n_iter` is given since small tables have too few rows for steps by default.

A new one is a row of `INSTANCES`: whatever holds for every synthesizer is then tested
on it too. The first row of a class is the plainest. They are shared: clone them.
"""

import functools

import numpy as np
from sklearn.base import clone
from tables import COLUMNS, small_table

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
    TableSchema,
)

_RANDOM = {"init": "random", "hidden_dims": ((8,), (3,)), "n_iter": 2}
_VOTES = {"n_iter": 2, "n_student_steps": 2, "batch_size": 16}

INSTANCES = {
    "independent": IndependentSynthesizer(),
    "pairwise": MarginalSynthesizer(),
    "pairwise rich": MarginalSynthesizer(9.0),  # small tables measure pairs too
    "gpate": GPATESynthesizer(n_iter=2),
    "gpate random": GPATESynthesizer(batch_size=4, projection_dim=2, **_RANDOM),
    "pategan": PATEGANSynthesizer(**_VOTES),
    "pategan laplace": PATEGANSynthesizer(noise="laplace", **_RANDOM | _VOTES),
    "dpcgan": DPCGANSynthesizer(n_iter=2),
    "dpcgan sampled": DPCGANSynthesizer(batch_size=50, **_RANDOM),
    "dpgan": DPGANSynthesizer(n_iter=2, n_discriminator_steps=2),
    "dpgan random": DPGANSynthesizer(**_RANDOM),
    "triplegan": PATETripleGANSynthesizer(**_VOTES),
    "triplegan dpsgd": PATETripleGANSynthesizer(desensitization="dpsgd", **_RANDOM),
    "gan": GANSynthesizer(n_iter=2),
}


def _private(table):
    return {name: s for name, s in table.items() if "epsilon" in s.get_params()}


PRIVATE = _private(INSTANCES)
# The first of each class, by the name of the class.
PLAIN = {}
for _synthesizer in INSTANCES.values():
    PLAIN.setdefault(type(_synthesizer).__name__, _synthesizer)
PLAIN_PRIVATE = _private(PLAIN)
# Those of them that train something on rows.
TRAINED = {k: s for k, s in PLAIN_PRIVATE.items() if "n_iter" in s.get_params()}

# --- Fits of every private synthesizer in every way of training -----------------------

DELTA = 1e-5


def make_table(n_rows, seed=0):
    """One row in eight has no label, and one in twenty is all of frequent values."""
    table = small_table(n_rows, seed).astype({"y": object})
    table.loc[np.arange(n_rows) % 20 == 6, ["a", "b"]] = -5.0, 5.0
    table.loc[np.arange(n_rows) % 8 == 3, "y"] = None
    return table


# So much that tables of two and of three columns are affordable.
EPSILON, TABLE = 4.0, make_table(1990)
DECLARED = TableSchema(
    COLUMNS, target="y", class_counts=TABLE["y"].value_counts().to_dict()
)
# Too few rows for tables; enough for second moments, of rows that have no classes.
FEW = TableSchema(COLUMNS, n_rows=500)

_MORE = {
    "pairwise unlabelled": MarginalSynthesizer(use_unlabelled=True),
    "triplegan measured dpsgd": clone(PRIVATE["triplegan"]).set_params(
        desensitization="dpsgd"
    ),
    "triplegan random": clone(PRIVATE["triplegan dpsgd"]).set_params(
        desensitization="hybrid", batch_size=16, n_student_steps=2
    ),
}
_MOMENTS = {
    "moments": MarginalSynthesizer(),
    "gpate moments": GPATESynthesizer(n_iter=2),
    "dpcgan moments": DPCGANSynthesizer(n_iter=2),
}


def _ready(synthesizer, schema, epsilon):
    settings = {"epsilon": epsilon, "schema": schema, "delta": DELTA, "random_state": 0}
    return clone(synthesizer).set_params(**settings)


WAYS = {n: _ready(s, DECLARED, EPSILON) for n, s in (PRIVATE | _MORE).items()}
WAYS |= {name: _ready(s, FEW, 1.0) for name, s in _MOMENTS.items()}
# With more budget samples would be whole classes; most rows are to be drawn.
WAYS["dpcgan sampled"].set_params(epsilon=1.0, batch_size=600)
for _name in ("pategan", "pategan laplace", "triplegan"):  # so that votes move
    WAYS[_name].set_params(batch_size=64, n_teachers=20)
del WAYS["pairwise rich"]


@functools.cache
def table_of(way, seed=0, n_rows=None):
    """The table that a way is fitted to, or another one like it."""
    if WAYS[way].schema is FEW:
        return small_table(n_rows or 500, seed)
    return make_table(n_rows or len(TABLE), seed)


def without_schema(synthesizer):
    """The same, with nothing declared but the target."""
    target = synthesizer.schema.target
    return clone(synthesizer).set_params(schema=None, target=target)
