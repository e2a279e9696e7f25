"""Tables and synthesizers whose scores are known."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator
from tables import YES_OR_NO

from skdpsynth import IndependentSynthesizer
from skdpsynth.evaluation import ComparisonResult, compare_synthesizers
from skdpsynth.exceptions import DegradedResultWarning

CLASSIFIERS = ["GaussianNB", "LogisticRegression", "DecisionTreeClassifier"]
OPTIONS = {"n_repeats": 2, "n_samples": 120, "classifiers": CLASSIFIERS}
OPTIONS["fidelity"] = False


def make_table(n_rows: int, seed: int) -> pd.DataFrame:
    """Make a table with numbers, a category, gaps and two labels."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_rows)
    table = pd.DataFrame(
        {
            "size": rng.normal(label, 1.0),
            "count": rng.poisson(2 + label),
            "kind": np.array(["red", "green", "blue"])[rng.integers(0, 3, n_rows)],
            "noise": rng.normal(size=n_rows),
        }
    )
    table["size"] = table["size"].mask(rng.random(n_rows) < 0.1)
    return table.assign(label=np.where(label, "yes", "no"))


class Copy(BaseEstimator):
    """Returns rows of the private table; claims nothing and has no epsilon."""

    def __init__(self, target=None, random_state=None):
        self.target = target
        self.random_state = random_state

    def fit(self, X):
        self.table_ = X
        return self

    def sample(self, n_samples, *, sampling_strategy=None, random_state=None):
        return self.table_.iloc[:n_samples].reset_index(drop=True)


class Blind(BaseEstimator):
    """Looks at no row, so that its claim holds: rows follow from seed and epsilon.

    It keeps what it was made with, and asked for, in lists that all share.
    """

    fits: list = []  # noqa: RUF012
    strategies: list = []  # noqa: RUF012

    def __init__(self, epsilon=1.0, target=None, random_state=None, verbose=0):
        self.epsilon = epsilon
        self.target = target
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X):
        self.fits.append((self.epsilon, self.random_state, self.target))
        self.epsilon_, self.delta_ = self.epsilon * 0.9, 1e-5
        return self

    def sample(self, n_samples, *, sampling_strategy=None, random_state=None):
        self.strategies.append(sampling_strategy)
        return make_table(n_samples, [random_state, int(10 * self.epsilon)])


class Broken(Blind):
    """Fails at one epsilon."""

    def fit(self, X):
        super().fit(X)
        if self.epsilon == 1.0:
            msg = "no rows for <this> one"
            raise RuntimeError(msg)
        return self


@pytest.fixture
def stubs() -> dict[str, type]:
    """Give the synthesizers above, with nothing fitted yet."""
    Blind.fits.clear()
    Blind.strategies.clear()
    return {"Copy": Copy, "Blind": Blind, "Broken": Broken}


@pytest.fixture(scope="session")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give a train and a test table."""
    return make_table(240, 0), make_table(160, 1)


@pytest.fixture
def compare(tables):
    """Call `compare_synthesizers` with small numbers."""

    def call(synthesizers, *, train=None, test=None, **changes) -> ComparisonResult:
        train = tables[0] if train is None else train
        test = tables[1] if test is None else test
        options = OPTIONS | changes
        return compare_synthesizers(synthesizers, train, test, "label", **options)

    return call


@pytest.fixture(autouse=True)
def _close_figures():
    """Let no figure stay open."""
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def result(tables) -> ComparisonResult:
    """Compare a baseline, two claims, and rows without a claim; one run fails."""
    stubs = {"<b>blind</b> & $x$": Blind(), "_copy": Copy(), "broken": Broken()}
    made = {"baseline": IndependentSynthesizer(schema=YES_OR_NO)} | stubs
    options = OPTIONS | {"epsilons": (0.5, 1.0, 10.0)}
    with warnings.catch_warnings(action="ignore", category=DegradedResultWarning):
        return compare_synthesizers(made, *tables, "label", **options)


@pytest.fixture(scope="session")
def pages(result, tmp_path_factory) -> dict[bool, str]:
    """Write the private page (True) and the public one (False)."""
    path, found = tmp_path_factory.mktemp("pages") / "page.html", {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda _, file, **options: file.write(b"png"))
        for private in (True, False):
            result.to_html(path, private=private)
            found[private] = path.read_text(encoding="utf-8")
    return found
