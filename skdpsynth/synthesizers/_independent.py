"""Independent noisy marginals per class: the baseline that networks must beat."""

from __future__ import annotations

from dataclasses import dataclass, field

from skdpsynth.synthesizers._marginal import MarginalSynthesizer, without_verbose


@without_verbose
@dataclass(eq=False, repr=False)
class IndependentSynthesizer(MarginalSynthesizer):
    """Synthetic tables from noisy marginals of every column in every class.

    No network, and no dependence between columns but through the class. It is hard to
    beat with a small budget, so everything else is compared with this baseline.

    Parameters
    ----------
    epsilon, delta, target, schema, budget : shared
    random_state : int, RandomState instance or None, default=None
        Seeds `sample`, never the noise.

    Attributes
    ----------
    epsilon_, delta_, schema_, classes_ : shared
    measurements_ : Measurements
        All noisy tables that were released; public.
    n_features_in_, feature_names_in_ : shared

    See Also
    --------
    MarginalSynthesizer : Measures how two and three columns depend on each other too.

    Notes
    -----
    **Privacy guarantee.** ``(epsilon_, delta_)``-differential privacy for adding or
    removing one row. A row is in one bin of every column, so the joint histogram of a
    class, less the mean of each column of B bins, has L2 sensitivity ``sqrt(sum(1 -
    1/B))``, and the number of rows adds the square of its weight. Classes are disjoint
    and compose in parallel. The noise is the discrete Gaussian. Class labels and
    counts, ranges, decimals and categories that no schema declares are measured within
    the same budget. Dtypes and column names are public.

    Bins follow the noisy counts: a coarse round finds where the rows are, a second
    round counts as many bins as a class can fill, at quantiles of the first. One smooth
    density is fitted to both.

    Examples
    --------
    >>> from skdpsynth import IndependentSynthesizer
    >>> from skdpsynth.datasets import load_thyroid
    >>> synth = IndependentSynthesizer(epsilon=3.0, target="class", random_state=0)
    >>> synth.fit(load_thyroid()).sample(5).shape
    (5, 22)
    """

    _dependent = False
    # What `MarginalSynthesizer` takes as parameters.
    order: int = field(default=1, init=False)
    design: None = field(default=None, init=False)
    use_unlabelled: bool = field(default=False, init=False)
    device: str = field(default="cpu", init=False)
