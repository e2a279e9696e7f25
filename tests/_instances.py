"""Every synthesizer with cheap parameters, and each way of training once.

A new one is a row of `INSTANCES`: whatever holds for every synthesizer is then tested
on it too. The first row of a class is the plainest. They are shared: clone them.
"""

from __future__ import annotations

from skdpsynth import (
    DPCGANSynthesizer,
    DPGANSynthesizer,
    GANSynthesizer,
    GPATESynthesizer,
    IndependentSynthesizer,
    MarginalSynthesizer,
    PATEGANSynthesizer,
    PATETripleGANSynthesizer,
)

_SHORT = {"n_iter": 2, "n_generator_steps": 2}
_VOTES = _SHORT | {"n_student_steps": 2, "batch_size": 16}
_SCRATCH = {"init": "random", "hidden_dims": (3,)}

INSTANCES = {
    "independent": IndependentSynthesizer(),
    "pairwise": MarginalSynthesizer(),
    "pairwise rich": MarginalSynthesizer(9.0),  # small tables measure pairs too
    "gpate": GPATESynthesizer(n_iter=2),
    "gpate random": GPATESynthesizer(n_iter=3, **_SCRATCH),
    "gpate votes": GPATESynthesizer(
        aggregator="confident_gnmax", n_iter=2, batch_size=4, projection_dim=2
    ),
    "pategan": PATEGANSynthesizer(**_VOTES),
    "pategan laplace": PATEGANSynthesizer(noise="laplace", **_SCRATCH, **_VOTES),
    "dpcgan": DPCGANSynthesizer(**_SHORT),
    "dpcgan sampled": DPCGANSynthesizer(batch_size=50, **_SCRATCH, **_SHORT),
    "dpgan": DPGANSynthesizer(**_SHORT),
    "dpgan random": DPGANSynthesizer(**_SCRATCH, **_SHORT),
    "triplegan": PATETripleGANSynthesizer(**_VOTES),
    "triplegan dpsgd": PATETripleGANSynthesizer(
        desensitization="dpsgd", **_SCRATCH, **_VOTES
    ),
    "gan": GANSynthesizer(**_SHORT),
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
