"""PATEGANSynthesizer: its plans, its labels, and broken twins that are caught.

The defects of public PATE-GAN code and the test that catches each are a table of
`docs/audit.md`.
"""

import numpy as np
import pytest
import torch
from _releases import flow, influence, watched
from _twins import after_encoding, slices, standardised_together
from _ways import TABLE, WAYS, table_of, without_schema
from sklearn.base import clone

# The teachers and the buffer of the student, which the twins break.
from skdpsynth.synthesizers import _pategan
from skdpsynth.training import _teachers

pytestmark = pytest.mark.usefixtures("hardly_any_fit")

LABELS = "labels by vote"

# --- Labels ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pategan", "pategan laplace"])
def test_votes_are_read_once_and_only_by_the_mechanism(way, monkeypatch):
    """Opinions are asked for once per round; each set goes into one release.

    Those of teachers of generated rows are public, and in no release.
    """
    asked, real, of_public = [], _teachers.TeacherEnsemble, []

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
    stds, read = [], _pategan.told_by_labels

    def watching(labels, seen, n_teachers, noise_std, rehearsed):
        stds.append(noise_std)
        return read(labels, seen, n_teachers, noise_std, rehearsed)

    monkeypatch.setattr(_pategan, "told_by_labels", watching)
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

        monkeypatch.setattr(_teachers.TeacherEnsemble, "logits", votes_of)
        fitted = clone(WAYS["pategan laplace"]).fit(TABLE)
        reports.append(fitted.privacy_report().to_dict())
    assert reports[0] == reports[1] == reports[2]


# --- Broken twins ------------------------------------------------------------------


class Everybody(_teachers.TeacherEnsemble):
    """Every teacher sees every row (O2, T1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts = np.ones_like(self._starts)
        self._counts = np.full_like(self._counts, len(rows))


class OnePart(_teachers.TeacherEnsemble):
    """All teachers train on the part of the first one (U1)."""

    def __init__(self, rows, n_teachers, **settings):
        super().__init__(rows, n_teachers, **settings)
        self._starts[:], self._counts[:] = self._starts[0], self._counts[0]


class DrawnAnew(_teachers.TeacherEnsemble):
    """Rows change teachers before every step (S1)."""

    def train_step(self, fake_rows, features):
        order = 1 + self._batch_rng.permutation(len(self._rows) - 1)
        self._rows[1:] = self._rows[order]
        super().train_step(fake_rows, features)


TWINS = [
    (_teachers, "TeacherEnsemble", Everybody),
    (_teachers, "TeacherEnsemble", OnePart),
    (_teachers, "TeacherEnsemble", DrawnAnew),
    (_teachers, "assign_teachers", slices),
]
CASES = [(*twin, "pategan") for twin in TWINS]
CASES += [
    (_teachers, "assign_teachers", slices, "pategan laplace"),
    (*after_encoding(standardised_together), "pategan"),
]


@pytest.mark.parametrize(("where", "name", "twin", "way"), CASES)
def test_one_row_that_moves_several_teachers_is_caught(
    where, name, twin, way, monkeypatch
):
    """By their votes on 256 rows; a teacher in a tie does not show.

    `OnePart` shows only rows of the first part, so several tables are tried.
    """
    monkeypatch.setattr(where, name, twin)
    synthesizer, sizes = clone(WAYS[way]), (400, 500, 600, 700)
    synthesizer.set_params(batch_size=256, n_teachers=2)
    found = (influence(synthesizer, TABLE[:n], until="teachers change") for n in sizes)
    assert any(findings for _, findings in found)


class Cheating(_pategan.VotePlayer):
    """The student is trained on real rows called real (S8, O4)."""

    def __init__(self, settings, own, rows):
        super().__init__(settings, own, rows)
        self._some = torch.from_numpy(rows[:256])

    def learn(self):
        fake = self.generator.rows(self.generator.draw(256))
        both = self.generator.features(torch.cat([self._some, fake]))
        self.student.add(both, (torch.arange(len(both)) < len(self._some)).float())
        super().learn()


def test_flow_round_the_mechanism_is_caught(monkeypatch):
    monkeypatch.setattr(_pategan, "VotePlayer", Cheating)
    # So many labels that some of them differ, whatever the teachers.
    synthesizer = without_schema(WAYS["pategan laplace"])
    synthesizer.set_params(batch_size=256, n_teachers=20)
    other = table_of("pategan laplace", seed=2, n_rows=1500)
    assert "the generator" in flow(synthesizer, TABLE, other)
