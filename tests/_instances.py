"""Every synthesizer with cheap parameters, and each way of training once.

`n_iter` is given since small tables have too few rows for steps by default.

A new one is a row of `INSTANCES`: whatever holds for every synthesizer is then tested
on it too. The first row of a class is the plainest. They are shared: clone them.
"""

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
