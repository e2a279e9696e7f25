"""imbalanced-learn's own checks of samplers: what passes, and why the rest does not."""

import math
from dataclasses import fields

import pytest
from imblearn.utils._tags import InputTags, SamplerTags, Tags
from imblearn.utils.estimator_checks import estimator_checks_generator

from skdpsynth import IndependentSynthesizer

# Checks that ask for something else than a synthesizer is; one that passes is an error.
REASONS = {
    "check_samplers_fit": "shares of classes are chosen when rows are drawn: no fit has"
    " a sampling_strategy_",
    "check_samplers_pandas_sparse": "sparse columns are refused, with the remedy",
    "check_target_type": "a target of floats is a measurement",
    "check_samplers_one_label": "its label is a float; one class is no error either",
    "check_samplers_multiclass_ova": "labels are one column: zeros and ones in several"
    " may be several labels of a row",
}


class Sampler(IndependentSynthesizer):
    """A synthesizer that says in imbalanced-learn's words what it takes."""

    def __sklearn_tags__(self):
        own = super().__sklearn_tags__()
        taken = {
            f.name: getattr(own.input_tags, f.name) for f in fields(own.input_tags)
        }
        taken |= {"dataframe": True, "string": True}
        return Tags(
            estimator_type=None,
            target_tags=own.target_tags,
            input_tags=InputTags(**taken),
            sampler_tags=SamplerTags(),
        )


# Without noise: some checks compare two fits, or have 30 rows.
CHECKS = [
    pytest.param(check, marks=marks, id=check.func.__name__)
    for _, check in estimator_checks_generator(Sampler())
    for reason in [REASONS.get(check.func.__name__)]
    for marks in [() if reason is None else pytest.mark.xfail(reason=reason)]
]


@pytest.mark.parametrize("check", CHECKS)
def test_imblearn(check):
    check(Sampler(epsilon=math.inf, random_state=0))
