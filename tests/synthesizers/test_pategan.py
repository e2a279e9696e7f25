"""PATEGANSynthesizer: its labels."""

import pytest
import torch
from _releases import watched
from _ways import TABLE, WAYS, table_of
from sklearn.base import clone
from tables import correlated_schema, correlated_table

from skdpsynth import GPATESynthesizer
from skdpsynth.exceptions import DegradedResultWarning
from skdpsynth.training import TeacherEnsemble, told_by_labels

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

LABELS = "labels by vote"

# --- Labels ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pategan", "pategan laplace"])
def test_votes_are_read_once_and_only_by_the_mechanism(way, monkeypatch):
    """Opinions are asked for once per round; each set goes into one release.

    Those of teachers of generated rows are public, and in no release.
    """
    asked, real, of_public = [], TeacherEnsemble, []

    def count(self, rows, features):
        asked.extend([] if self in of_public else [len(rows)])
        return logits(self, rows, features)

    def rehearse(self, *given):
        found = rehearsed(self, *given)
        of_public.append(found[0])
        return found

    logits, rehearsed = real.logits, real.rehearse
    monkeypatch.setattr(real, "logits", count)
    monkeypatch.setattr(real, "rehearse", rehearse)
    synthesizer = clone(WAYS[way]).set_params(n_teachers=12)
    _, seen = watched(synthesizer, table_of(way))
    votes = [s for s in seen if s.family == LABELS]
    assert asked == [s.release.n_releases for s in votes] == [WAYS[way].batch_size] * 4
    # Influence would also be right if one teacher had all rows.
    assert all(sum(map(any, s.teachers.values())) >= 6 for s in votes)


@pytest.mark.parametrize(("noise", "ratio"), [("gaussian", 1.0), ("laplace", 2**0.5)])
def test_labels_are_read_by_the_deviation_of_their_noise(noise, ratio, monkeypatch):
    """A Laplace law is stated by its scale."""
    stds = []

    def watching(labels, seen, n_teachers, noise_std, rehearsed):
        stds.append(noise_std)
        return told_by_labels(labels, seen, n_teachers, noise_std, rehearsed)

    monkeypatch.setattr("skdpsynth.synthesizers._pategan.told_by_labels", watching)
    synthesizer = clone(WAYS["pategan"]).set_params(noise=noise)
    _, seen = watched(synthesizer, table_of("pategan"))
    stated = [own.line.noise_std for own in seen if own.family == LABELS]
    assert stds == pytest.approx([ratio * std for std in stated], rel=1e-6)


def test_rounds_do_not_depend_on_unanimous_or_split_votes(monkeypatch):
    """No data-dependent stop: the ledger is the same whatever the teachers say."""
    reports = []
    for share in (0.0, 0.5, 1.0):

        def votes_of(self, rows, features, share=share):
            said = torch.full((self._n_teachers, len(rows)), -1.0)
            said[: int(share * self._n_teachers)] = 1.0
            return said

        monkeypatch.setattr(TeacherEnsemble, "logits", votes_of)
        fitted = clone(WAYS["pategan laplace"]).fit(TABLE)
        reports.append(fitted.privacy_report().to_dict())
    assert reports[0] == reports[1] == reports[2]


# --- GPATESynthesizer: its plans and its votes ----------------------------------------


def test_a_random_model_says_that_it_learns_nothing():
    synthesizer = GPATESynthesizer(
        1e-3, init="random", n_iter=2, schema=correlated_schema()
    )
    assert synthesizer.plan(200)["note"].all()
    with pytest.warns(DegradedResultWarning):
        synthesizer.fit(correlated_table(200))
    assert len(synthesizer.sample(100).dropna()) == 100
