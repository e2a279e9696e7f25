"""GPATESynthesizer: its plans and its votes.

What it has in common with the others is in `test_class_gan.py` and `test_privacy.py`.
"""

import pytest
from _releases import watched
from _ways import DELTA, TABLE, WAYS
from sklearn.base import clone
from tables import correlated_schema, correlated_table

from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.privacy import PrivacyAccountant

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

ANSWERS = "answers by vote"


def test_a_random_model_says_that_it_learns_nothing():
    synthesizer = GPATESynthesizer(
        1e-3, init="random", n_iter=2, schema=correlated_schema()
    )
    assert synthesizer.plan(200)["note"].all()
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(correlated_table(200))
    assert len(synthesizer.sample(100).dropna()) == 100


# --- Votes and sums ----------------------------------------------------------------


def test_every_vote_of_every_fake_is_charged():
    """m * k answers per step, not k: batch 8, 2 dimensions, 10 bins."""
    settings = {"n_iter": 3, "batch_size": 8, "projection_dim": 2}
    synthesizer = clone(WAYS["gpate random"]).set_params(**settings)
    _, seen = watched(synthesizer, TABLE)
    for payer in ("u", "v"):
        own = [s for s in seen if (s.name, s.payer) == (ANSWERS, payer)]
        assert sum(s.release.n_releases for s in own) == 48
        assert sum(s.release.exact.size for s in own) == 480
        # The closed form; sigma^2 has 4 more for the discrete Gaussian. Without what
        # frequent values are found with: 4 % of squared mu, 10 % of delta.
        charged = 48 * 2 / (own[0].line.noise_std ** 2 - 4)
        rest = 0.96 * PrivacyAccountant(4.0, 0.9 * DELTA).mu_cap ** 2
        assert charged == pytest.approx(rest, rel=2e-3)
