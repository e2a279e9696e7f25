"""No score depends on the order of rows or columns, the index, or the container."""

import numpy as np
import pandas as pd
import pytest

from skdpsynth.evaluation import quality_report
from skdpsynth.metrics import (
    CLASSIFIERS,
    broken_relations,
    column_fidelity,
    feature_ranking_agreement,
    marginal_fidelity,
    synthetic_only_scores,
    synthetic_ranking_agreement,
    tstr_scores,
    two_sample_scores,
)
from skdpsynth.utils.containers import arrow_like, from_arrow

pl = pytest.importorskip("polars")


def ordered_rows(n_rows: int, seed: int) -> pd.DataFrame:
    """Make rows of every kind, as unfair to an order as can be.

    They are sorted by label and number, many are equal, and categories beyond the 50
    and the 100 that are told apart are as frequent as some of these. The columns `lot`
    and `price` alone leave neighbours that are equally near.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n_rows)
    when = np.datetime64("2021-03-01T00:00:00.123", "ms")
    table = pd.DataFrame(
        {
            "x": (group + rng.normal(size=n_rows)).round(1),
            "lot": rng.integers(0, 4, n_rows),
            "flag": rng.random(n_rows) < 0.3,
            "when": when + rng.integers(0, 10**9, n_rows).astype("m8[ms]"),
            "span": rng.integers(0, 10**6, n_rows).astype("m8[ms]"),
            "code": [f"c{k}" for k in rng.integers(0, 150, n_rows)],
            "level": pd.Categorical(rng.choice(["p", "q"], n_rows)),
            "group": np.array(["a", "b", "c"])[group],
            "price": 3.0 * group + rng.integers(0, 30, n_rows) / 4,
            "label": np.where(group + rng.normal(size=n_rows) > 1, "yes", "no"),
        }
    )
    for name in ("x", "when", "code"):
        table[name] = table[name].mask(rng.random(n_rows) < 0.1)
    table = pd.concat([table, table[:: n_rows // 20]])
    return table.sort_values(["label", "price", "x"], ignore_index=True)


def reordered(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Put rows and columns in another order, under an index of repeated fractions."""
    table = table.sample(frac=1, random_state=seed)
    places = np.random.default_rng(seed).permutation(table.shape[1])
    return table.iloc[:, places].set_axis(0.5 - np.arange(len(table)) // 2)


WAYS = {
    "pandas": lambda table: table,
    "polars": lambda table: arrow_like(table, pl.DataFrame()),
}


def tables_of(report):
    parts = report.scores, report.columns, report.pairs, of_pairs(report.relations)
    return [*parts, report.tstr]


def of_pairs(table):
    kinds = ["relation"] if "relation" in table else []
    return table.set_index(["first", "second", *kinds])


def relations(real, synthetic, other):
    found = broken_relations(real, synthetic)
    return [of_pairs(found), pd.Series(found.attrs["any_relation"])]


def agreement(real, synthetic, other):
    scores = (column_fidelity(real, t)["distance"] for t in (synthetic, other))
    return synthetic_ranking_agreement(*scores)


def neighbours(real, synthetic, other):
    tables = (from_arrow(t)[["lot", "price"]] for t in (synthetic, real))
    return tstr_scores(*tables, target="price")


PANEL = ["RandomForestClassifier", "MLPClassifier"]
LABEL, PRICE = {"target": "label"}, {"target": "price"}
FEW = LABEL | {"classifiers": PANEL}
ALL = LABEL | {"classifiers": list(CLASSIFIERS)}
# Of real, synthetic and other rows.
SCORES = {
    "broken_relations": relations,
    "column_fidelity": lambda r, s, o: column_fidelity(r, s),
    "feature_ranking_agreement": lambda r, s, o: feature_ranking_agreement(
        r, s, **LABEL
    ),
    "feature_ranking_agreement: number": lambda r, s, o: feature_ranking_agreement(
        r, s, **PRICE
    ),
    "marginal_fidelity: alone": lambda r, s, o: marginal_fidelity(r, s, k=1),
    "marginal_fidelity: pairs": lambda r, s, o: marginal_fidelity(r, s),
    "marginal_fidelity: triples": lambda r, s, o: marginal_fidelity(
        *(from_arrow(t).drop(columns=["span", "flag"]) for t in (r, s)), k=3
    ),
    "synthetic_only_scores": lambda r, s, o: synthetic_only_scores(s, **FEW),
    "synthetic_ranking_agreement": agreement,
    "tstr_scores": lambda r, s, o: tstr_scores(s, r, **ALL),
    "tstr_scores: number": lambda r, s, o: tstr_scores(s, r, **PRICE),
    "tstr_scores: neighbours": neighbours,
    "two_sample_scores": lambda r, s, o: two_sample_scores(r, s, max_rows=150),
    "quality_report": lambda r, s, o: tables_of(quality_report(r, s, **LABEL)),
    "quality_report: number": lambda r, s, o: tables_of(quality_report(r, s, **PRICE)),
}
SORTED = ordered_rows(300, 0), ordered_rows(280, 1), ordered_rows(260, 2)


def values(found) -> dict:
    """Give what was found by what it is of; a pair of columns has no order."""
    if isinstance(found, list):
        parts = [values(part) for part in found]
        return {(i, *key): v for i, part in enumerate(parts) for key, v in part.items()}
    if isinstance(found, pd.DataFrame):
        found = found.stack(list(range(found.columns.nlevels)))  # noqa: PD013
    if not isinstance(found, pd.Series):
        return {(): found}
    keys = [key if isinstance(key, tuple) else (key,) for key in found.index]
    names = [tuple(sorted(map(str, key))) for key in keys]
    return dict(zip(names, found, strict=True))


def differ(one, other) -> bool:
    """Say whether two figures differ by more than rounding, or two texts at all."""
    if isinstance(one, str):
        return one != other
    return other != pytest.approx(one, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.TiedScoresWarning")
@pytest.mark.parametrize("name", SCORES)
def test_no_score_depends_on_an_order(name):
    """Equal but for rounding, for sorted rows and two other orders of each table."""
    expected = values(SCORES[name](*SORTED))
    for seed, (way, container) in enumerate(WAYS.items()):
        tables = [reordered(table, 10 * seed + i) for i, table in enumerate(SORTED)]
        found = values(SCORES[name](*map(container, tables)))
        assert found.keys() == expected.keys(), way
        moved = {k: (v, found[k]) for k, v in expected.items() if differ(v, found[k])}
        assert not moved, way
