"""What `plan` shows is what a fit does, and what a fit says of a poor result."""

import math
import re
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from skdpsynth import IndependentSynthesizer, MarginalSynthesizer, PrivacyBudget
from skdpsynth.exceptions import DegradedResultWarning, SkdpsynthError
from skdpsynth.privacy import GRID
from skdpsynth.privacy.testing import insecure_randomness
from skdpsynth.schema import Boolean, Categorical, Continuous, Identifier, TableSchema

N_ROWS, MANY_ROWS = 6000, 20_000
UNIT = Continuous(0, 50)
COUNTS = {"m": 4000, "n": 2000}


def make_table(label="text"):
    """Make a table whose label is "text", "integer" or "boolean"."""
    number = np.arange(N_ROWS)
    first = number < 4000
    labels = {"text": np.where(first, "m", "n"), "integer": 1 - first, "boolean": first}
    columns = {
        "a": 50 * number / N_ROWS,
        "b": np.pi * (number % 7),
        "s": np.where(number % 2, "odd", "even"),
        "t": np.where(number % 3, "x", "y"),
        "id": number.astype(str),
    }
    return pd.DataFrame(columns | {"y": labels[label]})


LEVELS = {"s": Categorical(["odd", "even"]), "t": Categorical(["x", "y"])}
# The schemas leave out a category, numbers, all but two columns, or all.
SCHEMAS = {
    "all": {"a": UNIT, "b": UNIT, "s": LEVELS["s"]},
    "one measured": {"a": UNIT, "b": UNIT, "t": LEVELS["t"]},
    "numbers measured": LEVELS,
    "two given": {"a": UNIT, "id": Identifier()},
    "nothing": {},
}


@pytest.mark.usefixtures("frozen_noise")  # else columns may be asked again
@pytest.mark.parametrize(
    ("name", "label"),
    [*product(SCHEMAS, ["text"]), ("nothing", "integer"), ("nothing", "boolean")],
)
def test_the_plan_subtracts_what_is_bought(name, label):
    """The noise of a fit follows from what it spent; the plan knew it before.

    But for levels that are measured: they may be many, and the plan is for that. Both
    columns turn out to have two, which need half the squared sensitivity.
    """
    columns, table = SCHEMAS[name], make_table(label)
    table = table.drop(columns=["id"] * ("id" not in columns))
    counts = table["y"].value_counts().to_dict()
    schema = TableSchema(columns) if columns else None
    synth = IndependentSynthesizer(schema=schema, target="y")
    plan = synth.plan(N_ROWS, dtypes=table.dtypes, class_counts=counts)
    report = synth.fit(table).privacy_report()
    paid = [entry for entry in report.entries if entry.name == "marginals"]
    fitted = np.array(sorted(entry.noise_std / GRID for entry in paid))
    ratio = (np.array(sorted(plan["noise_std"])) / fitted) ** 2
    n_unknown = sum(name not in columns for name in ("s", "t"))
    spread = np.array([entry.sensitivity / GRID for entry in paid]) ** 2
    # Counts are measured with noise, a plan rounds them to two digits, and bins of a
    # column with few values fall together.
    assert (ratio >= 0.999 + n_unknown / 2.2 / spread.max()).all()
    # A plan has remainders of numbers of which nobody said how they are written.
    assert (ratio <= 1.04 + n_unknown / 1.8 / spread.min()).all()
    again = synth.plan(N_ROWS, class_counts=counts)
    pd.testing.assert_frame_equal(again, plan, check_exact=False, check_like=True)


def test_a_target_that_nobody_describes_needs_labels():
    """One label is above the threshold, the other is not; a fit of another is none."""
    table = make_table().drop(columns="id")
    synth = IndependentSynthesizer(schema=TableSchema({"a": UNIT}), target="t")
    synth.fit(table).set_params(target="y")
    with pytest.raises(SkdpsynthError, match="needs to know the classes"):
        synth.plan(1000, dtypes=table.dtypes)
    plan = synth.plan(dtypes=table.dtypes, class_counts={"p": 900, "q": 12})
    assert plan["class"].tolist() == ["p", "q"]
    assert plan["rows"].tolist() == [900, 12]
    notes = plan["note"].str.contains("too few rows for its label to be found")
    assert notes.tolist() == [False, True]


def test_declared_counts_win():
    schema = TableSchema(LABELLED.columns, target="y", class_counts=COUNTS)
    synth = IndependentSynthesizer(schema=schema)
    assert synth.plan()["rows"].tolist() == synth.plan(6000)["rows"].tolist()
    assert synth.plan()["rows"].tolist() == [4000, 2000]
    with pytest.raises(ValueError, match="add up to 6000, but n_rows is 7000"):
        synth.plan(7000)
    with pytest.raises(ValueError, match="differ from those"):
        synth.plan(class_counts={"m": 3000, "n": 3000})
    with pytest.raises(ValueError, match="the schema declares 500"):
        IndependentSynthesizer(schema=TableSchema({"a": UNIT}, n_rows=500)).plan(9)


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ({"y": Categorical(["only"])}, "one class only"),
        ({"b": Continuous(1, 1)}, "1 of 2 columns can hold one value only"),
        ({"b": Categorical(["same"])}, "1 of 2 columns can hold one value only"),
    ],
)
def test_what_cannot_vary_is_said_in_advance(columns, note):
    described = {"a": UNIT, "b": UNIT, "y": Boolean(), **columns}
    synth = IndependentSynthesizer(schema=TableSchema(described, target="y"))
    assert synth.plan(100_000)["note"].str.contains(note).all()


def test_categories_that_cannot_be_found_are_said_in_advance():
    """The threshold is in the plan: a category with fewer rows is not found."""
    synth = IndependentSynthesizer()
    plan = synth.plan(1_000_000, dtypes={"s": "str", "u": "float64"})
    threshold = plan["category_threshold"][0]
    assert 50 < threshold < 500
    few = synth.plan(40, dtypes={"s": "str", "u": "float64"})
    assert "too few rows for any undeclared category" in few["note"][0]
    n_found = 0
    for rows, found in ((1, False), (3 * threshold, True)):
        table = pd.DataFrame({"s": ["often"] * 4000 + ["key"] * rows})
        synth = IndependentSynthesizer().fit(table.assign(u=0.5))
        n_found += ("key" in synth.schema_.columns["s"].categories) == found
    # A tenth of delta at most lies above the threshold, which is 5 deviations.
    assert n_found == 2


@pytest.mark.parametrize("target", [None, "s"])
def test_a_lost_order_warns(target):
    """Categories and labels are data, and so is their order, unless it is declared."""
    levels = ["low", "medium", "high"]
    ordered = pd.Categorical(levels * 1000, levels, ordered=True)
    frame = pd.DataFrame({"u": np.linspace(0, 9, 3000), "s": ordered})
    schema = TableSchema({"s": Categorical(levels, ordered=True)})
    stated = IndependentSynthesizer(schema=schema, target=target).fit(frame)
    assert stated.sample(9)["s"].cat.categories.tolist() == levels
    synth = IndependentSynthesizer(target=target)
    with pytest.warns(DegradedResultWarning, match=r"order of the categories of 's'"):
        synth.fit(frame)
    fake = synth.sample(9)["s"]
    assert fake.cat.ordered
    assert fake.cat.categories.tolist() == sorted(levels)


def test_a_refit_with_the_schema_of_a_fit_pays_for_what_no_schema_says():
    """Also where the number of rows was declared, and the counts were measured."""
    table = make_table("integer").drop(columns="id")
    labels = Categorical([0, 1], nullable=True)
    for declared in (None, TableSchema({"y": labels}, target="y", n_rows=N_ROWS)):
        first = IndependentSynthesizer(schema=declared, target="y").fit(table)
        again = IndependentSynthesizer(schema=first.schema_).fit(table)
        names = {entry.name for entry in again.privacy_report().entries}
        assert names <= {"frequent values", "coarse marginals", "marginals"}
        counts = first.schema_.class_counts
        assert counts[0] == pytest.approx(4000, abs=200)
        if declared is not None:
            assert sum(counts.values()) == first.schema_.n_rows == N_ROWS


LABELLED = TableSchema({"a": UNIT, "y": Categorical(["m", "n"])}, target="y")
GUESSES = {"m": 60, "n": 40}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"schema": {"a": 1}}, "schema must be a TableSchema. Got dict"),
        ({"dtypes": {"a": "nosuch", "y": "str"}}, "none that pandas knows"),
        ({"dtypes": pd.Series(["str"] * 3, ["a", "a", "y"])}, "more than once"),
        ({"dtypes": {"a": "float64", "y": "float64"}}, "a number or a time and has"),
        ({"dtypes": {"a": "float64", "y": "M8[s]"}}, "a number or a time and has no"),
        ({"dtypes": {"a": "float64", "y": "int64"}}, "must name labels as"),
        ({"dtypes": {"a": "complex128", "y": "str"}}, "not supported"),
        ({"dtypes": {"a": "float64"}}, "'y' is not in dtypes"),
        ({"dtypes": {"s": "str", "y": "str"}}, "columns that the table lacks"),
        ({"dtypes": pd.DataFrame({"a": [1.0]})}, "dtypes must be df.dtypes"),
        ({"class_counts": {"m": 60, "n": 50}}, "add up to 110, but n_rows is 100"),
        ({"class_counts": {"m": 60, "z": 40}}, "must name every class once"),
        ({"class_counts": {"m": True, "n": 99}}, "must be an int >= 0. Got True"),
        ({"class_counts": {"m": -1, "n": 101}}, "must be an int >= 0. Got -1"),
        ({"class_counts": [3, 4]}, "class_counts"),
        *(
            ({"n_rows": own, "schema": LABELLED}, r"n_rows must be an int >= 1.* Got")
            for own in (0, 1.5, "many", True)
        ),
        ({"n_rows": None, "class_counts": None, "schema": LABELLED}, "Give n_rows"),
        (
            {"class_counts": None, "schema": TableSchema({"y": Boolean()})},
            "no column that could be modelled",
        ),
        ({"schema": None}, "needs to know the columns"),
    ],
)
def test_a_plan_refuses_what_cannot_be(parameters, words):
    described = LABELLED if "class_counts" in parameters else TableSchema({"a": UNIT})
    given = {"n_rows": 100, "schema": described, "class_counts": GUESSES} | parameters
    synth = IndependentSynthesizer(target="y")
    with pytest.raises(ValueError, match=words):
        synth.plan(**given)


def test_declared_classes_may_be_empty_and_labels_missing():
    synth = IndependentSynthesizer(schema=LABELLED)
    plan = synth.plan(class_counts={"m": 5000, "n": 0})
    assert plan["label_threshold"].tolist() == [0, 0]
    assert not plan["note"].str.contains("to be found").any()
    columns = {"a": UNIT, "y": Categorical(["m", "n"], nullable=True)}
    synth = IndependentSynthesizer(schema=TableSchema(columns, target="y"))
    plan = synth.plan(100, class_counts={"m": 60, "n": 30})
    assert plan["rows"].tolist() == [60, 30]


def said(synth, table) -> str:
    """Fit, and give the text of the warning; empty without one, and never two."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        synth.fit(table)
    texts = [str(w.message) for w in caught if w.category is DegradedResultWarning]
    assert len(texts) <= 1
    assert len(caught) == len(texts)
    return "".join(texts)


def independent(epsilon: float = 1.0, schema: TableSchema | None = None, **options):
    options = {"target": "y", "random_state": 0} | options
    return IndependentSynthesizer(epsilon=epsilon, schema=schema, **options)


def plain_table(n_rows: int = MANY_ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows),
            "pay": rng.lognormal(8.0, 0.5, n_rows).round(2),
            "kind": rng.choice(["a", "b"], n_rows),
            "y": rng.integers(0, 2, n_rows),
        }
    )


def test_what_is_said_of_dependence_and_nothing_where_the_budget_suffices():
    words = "all classes have too few rows to learn how columns depend on each other"
    for kind, epsilon, told in (
        (MarginalSynthesizer, 1.0, True),
        (IndependentSynthesizer, 1.0, False),  # it has none by design
        (MarginalSynthesizer, math.inf, False),
    ):
        synth = kind(epsilon, target="y", random_state=0)
        assert (words in said(synth, plain_table(100))) == told
        assert said(synth, plain_table()) == ""


def wide_table(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    price = rng.lognormal(6.0, 1.0, n_rows)
    return plain_table(n_rows).assign(
        balance=rng.normal(0.0, 900.0, n_rows),
        born=np.datetime64("1990", "D") + rng.integers(0, 9_000, n_rows),
        stay=pd.to_timedelta(rng.integers(60, 7_200, n_rows), unit="s"),
        ill=rng.random(n_rows) < 0.3,
        price=[f"${value:,.2f}" for value in price],
        zip=rng.integers(10_000, 99_999, n_rows),
        size=pd.Categorical(["s", "l"] * (n_rows // 2), ["s", "l"], ordered=True),
    )


def test_what_a_fit_warns_of_had_a_note():
    """Of 8 tables, sizes and budgets; the seed of the noise is fixed."""
    silent = ["pay age", "ill balance born", "stay age", "born age", "y pay"]
    lost, n_silent = ["age price", "age kind", "age size"], 0
    for names, n, epsilon in product([*silent, *lost], [200, 1_000, 6_000], [0.3, 3.0]):
        table = wide_table(n)[names.split()]
        synth = independent(epsilon, target=None if names in lost else table.columns[0])
        counts = {0: n // 2, 1: n // 2} if names == "y pay" else None
        notes = synth.plan(n, dtypes=table.dtypes, class_counts=counts)["note"]
        with insecure_randomness(1):
            text = said(synth, table)
        n_silent += text == ""
        assert notes.any() or not text, (names, n, epsilon, text)
        assert names in silent or notes.str.contains(repr(names.split()[1])).all()
    assert n_silent >= 12


def test_the_remedies_fit_what_a_column_holds():
    """None is called an identifier: a fit cannot tell one from a price as a text."""
    table = wide_table(50)[["kind", "price", "zip", "born", "balance"]]
    with insecure_randomness(0):
        text = said(independent(0.1, target=None), table)
    for words in (
        "no category of 'kind', 'price' was frequent enough to be released, and their",
        "missing (declare Categorical([...])",
        "clipped (state it: Continuous(low, high, integer=True))",
        "the range of 'zip' is a guess, beyond which values are clipped (state it",
        "'born' is a guess, beyond which values are clipped (state it: Datetime(low",
        "'balance' is a guess, beyond which values are clipped (state it: Cont",
    ):
        assert words in text
    assert "Identifier" not in text
    # The curator, who may read the cells, is told which it is.
    found = TableSchema({}).check(table.assign(name=[*map(chr, range(97, 147))]))
    found = found[~found["finding"].str.startswith("not declared")]
    assert found["column"].tolist() == ["price", "name"]
    assert found["finding"].str.contains("that look like|no value twice").all()


def test_a_range_that_is_a_guess():
    table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "y"})
    with insecure_randomness(1):
        synth = independent(epsilon=0.35)
        text = said(synth, table)
        names = table.columns.drop("y")
        declared = TableSchema({name: Continuous(0, 5_000) for name in names})
        without = said(independent(epsilon=0.35, schema=declared), table)
    assert "values are clipped (state it: Continuous(low, high))" in text
    assert "is a guess" not in without
    # The warning names twelve, the report all.
    few = text.partition("the range of ")[2].partition(" is a guess")[0]
    assert few.count("'") == 24
    (notes,) = (n for n in synth.privacy_report().notes if n.startswith("Parts of"))
    every = notes.partition("the range of ")[2].partition(" is a guess")[0]
    guessed = set(every.replace("'", "").split(", "))
    assert 12 < len(guessed) < len(names)
    assert guessed <= set(names)


@pytest.mark.usefixtures("frozen_noise")
def test_the_remedies_of_texts_follow_from_what_was_found_of_them():
    """What names rows is none of a few values, and free text is mostly rare."""
    numbers = np.arange(MANY_ROWS)
    rare = "rare categories are drawn as the ones that were found, in 's'"
    unique, text = numbers.astype(str), "free text is Text()"
    common = np.where(numbers % 10 < 3, "none", "often")
    cases = [
        (unique, ("no category of 's'", text, "what names rows Identifier()")),
        (
            np.where(numbers % 10 < 3, "none", unique),
            (f"{rare} (1 kept, about 70 %", text),
        ),
        (np.where(numbers % 10 < 7, common, unique), (f"{rare} (2 kept, about 30 %",)),
    ]
    for values, words in cases:
        said_of = said(independent(target=None), pd.DataFrame({"u": 0.5, "s": values}))
        assert all(word in said_of for word in words)
        assert (text in said_of) == (text in words)
        assert ("Identifier" in said_of) == (values is unique)
    note = independent(target=None).plan(9, dtypes={"s": "str", "u": float})["note"][0]
    assert f"codes are Categorical([...]), {text}, what names rows Identifier" in note


@pytest.mark.parametrize("n_categories", [2, 6])
def test_a_plan_without_tables_says_so_and_what_would_do(n_categories):
    """Correlations alone do not say what goes with each of several categories."""
    listed = Categorical([*map(str, range(n_categories))])
    schema = TableSchema({"ward": listed, "icd": listed, "age": UNIT, "cost": UNIT})
    synth = MarginalSynthesizer(0.3, schema=schema)
    told, note = n_categories > 2, synth.plan(1_000)
    assert note["tables"][0] == 0
    assert note["dependence"][0] == "weak"
    assert ("only correlations are measured" in note["note"][0]) == told
    assert note["note"].str.contains(r"\(epsilon \d+ is enough\)$").all() == told
    holes = {name: Continuous(0, 9, nullable=n_categories > 2) for name in "abcd"}
    (gone,) = MarginalSynthesizer(0.3, schema=TableSchema(holes)).plan(1_000)["note"]
    assert ("is missing together (state it: MissingTogether([...]))" in gone) == told
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (1_000, 4)), columns=[*schema.columns])
    table = table.astype({"ward": str, "icd": str})
    assert ("all classes have too few rows for tables" in said(synth, table)) == told
    epsilon = float(re.search("epsilon (\\d+)", note["note"][0] + "epsilon 9")[1])
    assert synth.set_params(epsilon=epsilon).plan(1_000)["tables"][0] == 6


def test_few_missing_values_and_hours_are_named_and_what_is_stated_is_kept():
    """Of 3,000 rows at epsilon 1: 3 % missing, in the same rows, as `check` says."""
    rng, n = np.random.default_rng(0), 3000
    table = pd.DataFrame(rng.uniform(0, 9, (n, 6)).round(1), columns=[*"abcdef"])
    table.loc[:89, ["a", "b"]] = None
    hours = pd.to_timedelta(rng.normal(18, 2, n) + 24 * rng.integers(0, 700, n), "h")
    table["t"] = hours + pd.Timestamp("2023-01-01")
    advice = TableSchema({}).check(table)["finding"].str.cat()
    assert "where 'a' is: MissingTogether(['a', 'b'])" in advice
    blank = {"kind": "continuous", "low": None, "high": None}
    columns = [(name, blank | {"nullable": name in "ab"}) for name in "abcdef"]
    rules = [{"rule": "missing_together", "columns": ["a", "b"]}]
    stated = TableSchema.from_dict({"columns": columns, "rules": rules})
    for schema, told in ((TableSchema({}), True), (stated, False)):
        synth = MarginalSynthesizer(1.0, schema=schema, target=None, random_state=0)
        assert "not seen in 'a', 'b'" in synth.plan(n, dtypes=table.dtypes)["note"][0]
        with insecure_randomness(0):
            words = said(synth, table)
        assert ("not seen in 'a', 'b'" in words) == told
        assert "more evenly spread in 't'" in words
    found = synth.sample(n, random_state=0).isna()
    assert found["a"].mean() == pytest.approx(0.03, abs=0.025)
    assert found["a"].equals(found["b"])


@pytest.mark.parametrize("seed", range(4))
def test_what_the_noise_hides_and_far_codes_are_named_and_no_other_column(seed):
    """Of 3,000 rows at epsilon 1, frozen noise; 500 amounts hide the largest."""
    rng, n = np.random.default_rng(seed), 3000
    amounts, place = rng.lognormal(5.0, 1.0, n).clip(1, 4999), rng.permutation(n)
    times = np.datetime64("2015", "s") + rng.integers(0, 10**8, n)
    columns = {
        "few": np.where(place < 90, amounts, 0),
        "many": np.where(place < 500, amounts, 0),
        "flat": rng.uniform(0, 5000, n),
        "tail": rng.lognormal(5.0, 2.0, n).round(2),
        "low": np.where(place < 300, -77777, rng.integers(0, 5000, n)),
        "high": np.where(place < 300, 77777.0, amounts),
        "until": np.where(place < 300, np.datetime64("2099", "s"), times),
        "kind": np.where(place < 270, place // 30, place % 4 + 9).astype(str),
    }
    schema = TableSchema(dict.fromkeys(["few", "many", "flat"], Continuous(0, 5000)))
    with insecure_randomness(seed):
        text = said(independent(schema=schema, target=None), pd.DataFrame(columns))
    assert "few rows of 'few' have amounts" in text
    assert "some rows of 'low', 'high', 'until' are far from all others" in text
    assert "as the ones that were found, in 'kind' (4 kept, about" in text
    assert re.search("the largest values of 'many' .from [^;]*, 'tail' .from", text)
    assert "'flat'" not in text


def flat_claims(rng, n):
    return rng.uniform(50, 240, n) * (rng.permutation(n) < n // 10)


LARGEST = {
    "flat claims": (3_000, Continuous(0, 500), flat_claims),
    "wide bounds": (3_000, Continuous(0, 1e6), flat_claims),
    "undeclared": (3_000, None, lambda rng, n: rng.lognormal(8, 2, n)),
    "whole": (3_000, None, lambda rng, n: rng.lognormal(8, 2, n).astype(int)),
    "pareto": (20_000, None, lambda rng, n: 1 + rng.pareto(1.2, n)),
    "losses": (3_000, Continuous(-1e6, 0), lambda rng, n: -rng.lognormal(5, 2, n)),
}


@pytest.mark.parametrize("kind", LARGEST)
def test_columns_whose_largest_values_the_noise_hides_are_named(kind):
    """And no others, of 9 columns at epsilon 1, frozen noise."""
    n, stated, draw = LARGEST[kind]
    schema = TableSchema({"a": stated} if stated else {})
    for seed in range(3):
        rng = np.random.default_rng(seed)
        light = {
            "normal": rng.normal(50, 9, n),
            "even": rng.uniform(0, 1e4, n),
            "waits": rng.exponential(100, n),
            "ages": rng.integers(18, 90, n),
        } | {f"x{i}": rng.normal(5, 1, n) for i in range(4)}
        table = pd.DataFrame({"a": draw(rng, n)} | light)
        with insecure_randomness(seed):
            text = said(independent(schema=schema, target=None), table)
        found = re.findall("(?:largest values|range) of ([^;]*)", text)
        assert "'a'" in "".join(found)
        assert not re.search(f"'({'|'.join(light)})'", "".join(found))
    many = {"a": flat_claims(rng, 30_000), "b": rng.exponential(1, 30_000)}
    with insecure_randomness(seed):
        assert "largest" not in said(independent(target=None), pd.DataFrame(many))


@pytest.mark.parametrize("n_rows", [3_000, 30_000])
def test_lists_of_prices_are_named_where_frequent_values_are_not_measured(n_rows):
    """Before a fit and after it, of 9 columns at epsilon 1, whatever the noise."""
    prices = np.arange(40) * 10.0 + 9.99
    columns = {f"x{i}": np.linspace(0.0, 9.0, n_rows) for i in range(8)}
    table = pd.DataFrame({"price": np.resize(prices, n_rows)} | columns)
    synth = independent(target=None)
    plan, words = synth.plan(n_rows, dtypes=table.dtypes), "such as prices (Categoric"
    few = np.isinf(plan["value_threshold"][0])
    assert few == (n_rows == 3_000)
    assert (words in plan["note"][0]) == few
    assert (words in said(synth, table)) == few
    if few:  # the remedy
        schema = TableSchema({"price": Categorical(prices.tolist())})
        synth = independent(schema=schema, target=None).fit(table)
        assert synth.sample(n_rows)["price"].isin(prices).all()


def test_prices_between_those_of_a_list_are_named_and_no_other_column():
    """Of 12,000 rows x 9 columns at epsilon 1; the seed of the noise is fixed."""
    rng, n, prices = np.random.default_rng(0), 12_000, np.arange(40) * 10.0 + 9.99
    usual = np.where(rng.random(n) < 0.5, 40, rng.choice([20, 30, 35, 50, 60], n))
    table = pd.DataFrame(rng.choice([*"abcd"], (n, 5)), columns=[*"vwxyz"]).assign(
        price=rng.choice(prices, n),
        age=rng.integers(18, 90, n),
        hours=np.where(rng.random(n) < 0.8, usual, rng.integers(1, 99, n)),
        paid=rng.lognormal(4.0, 1.0, n).round(2),
    )
    for stated, told in (({}, ["'price'"]), ({"price": Categorical([*prices])}, [])):
        synth = independent(schema=TableSchema(stated), target=None)
        with insecure_randomness(0):
            text = said(synth, table)
        assert re.findall(r"([^ ]*) has a few values, such as prices", text) == told
        between = ~synth.sample(n, random_state=0)["price"].isin(prices)
        assert (between.mean() > 0.02) == bool(told)


def test_whole_numbers_that_may_number_the_rows():
    rng = np.random.default_rng(2)
    table = plain_table().assign(
        customer=1 + rng.permutation(MANY_ROWS),
        income=rng.lognormal(11.0, 0.5, MANY_ROWS).astype(int),  # many, but not even
    )
    text = said(independent(), table)
    assert "'customer' may number the rows (describe it as Identifier())" in text
    assert "'income'" not in text
    schema = TableSchema({"customer": Identifier()})
    assert said(independent(schema=schema), table) == ""
    # Ages are as many as a few rows, and evenly spread.
    few = table.iloc[:100].assign(customer=rng.integers(18, 81, 100))
    assert "may number the rows" not in said(independent(epsilon=20.0), few)
    codes = table.assign(customer=rng.integers(1_000, 99_999, MANY_ROWS))  # of places
    text = said(independent(), codes)
    assert "the whole numbers of 'customer' are evenly spread as codes are" in text
    assert "Identifier" not in text


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_rows", "words"),
    [
        (25.0, 1e-5, None, "Epsilon is above 20"),
        (20.0, 5e-3, None, "Delta is above 0.001"),
        (20.0, 1e-3, 7_000, "Delta is above 1 / rows, of which there are about 7000"),
    ],
)
def test_weak_claims_are_said_before_the_charge(epsilon, delta, n_rows, words):
    """And, by the number of rows, in a plan, and after a fit in its report."""
    budget, table = PrivacyBudget(99.0, 0.9), plain_table(7_000)[["age"]]
    options = {"delta": delta, "target": None, "budget": budget}
    synth = independent(epsilon, TableSchema({}, n_rows=n_rows), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DegradedResultWarning, match=words):
            synth.fit(table)
    assert budget.spent == (0.0, 0.0)
    notes = " ".join(synth.fit(table).privacy_report().notes)
    notes += synth.plan(7_000, dtypes=table.dtypes)["note"][0]
    assert notes.count("Delta is above 1 / rows") == 2 * (delta > 1 / 7_000)
    assert notes.count("Epsilon is above 20") == 2 * (epsilon > 20)
    synth = independent(math.inf, delta=0.5, target=None)  # without noise no claim
    assert said(synth, table) == ""


def test_plan_says_the_same_in_advance_and_which_epsilon_would_do():
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "y"})
    counts = wine["y"].value_counts().to_dict()
    synth = MarginalSynthesizer(epsilon=1.0, target="y")
    plan = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert plan["note"].str.contains("too few rows for its label to be found").all()
    names = ", ".join(map(repr, wine.columns[:-1]))  # all of them, by name
    assert all(f"ranges: {names} may be guesses" in note for note in plan["note"])
    assert plan["note"].str.contains("depend on each other").all()
    assert plan["note"].str.contains("labels of up to 133 rows are not found").all()
    needed = plan["epsilon_needed"].max()  # a NumPy number, as a grid of them has
    assert 1.0 < needed <= 20.0
    # It is enough in a plan, and the one before it on the list is not.
    words = "too few rows (?!to learn)|lost|mostly noise"
    synth.set_params(epsilon=needed)
    after = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert not after["note"].str.contains(words).any()
    synth.set_params(epsilon=0.5 * needed)
    before = synth.plan(dtypes=wine.dtypes, class_counts=counts)
    assert before["note"].str.contains(words).any()
    # And in a fit: all classes are found, and no range is a guess.
    synth.set_params(epsilon=needed, random_state=0)
    with insecure_randomness(3):
        text = said(synth, wine)
    assert set(synth.classes_) == set(counts)
    assert "is a guess" not in text
