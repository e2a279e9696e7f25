"""The long runs of kaggle_credit.ipynb, and a command that executes the notebook.

``python examples/kaggle_credit_runs.py --data creditcard.csv`` runs the notebook's code
here, its comparison included: a quarter of an hour on an idle core. Finished runs are
kept, so that an interrupted command goes on where it was; what the comparison found is
written to examples/results. With ``--execute`` the notebook is executed in place, which
takes some minutes where the results are there. ``--quick`` rehearses either with few
rows, in a folder of its own.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library reads it

import argparse
import json
import math
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from joblib import parallel_config
from sklearn.base import clone

from skdpsynth.evaluation import ComparisonResult, compare_synthesizers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sklearn.base import BaseEstimator

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE / "kaggle_credit.ipynb"
QUICK = bool(os.environ.get("KAGGLE_CREDIT_QUICK"))
_KEYS = ["synthesizer", "epsilon", "repeat"]
# A rehearsal uses these settings instead of the notebook's.
_REHEARSED = {
    "n_repeats": 1,
    "n_samples": 2_040,
    "sampling_strategy": {0: 2_000, 1: 40},
    "classifiers": ["LogisticRegression", "GaussianNB"],
}
_LARGEST = 1_500_000  # bytes of the notebook


def fewer_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Take the frauds and 4,000 other rows, for a rehearsal."""
    fraud = table["Class"] == 1
    others = table[~fraud].sample(4_000, random_state=0)
    return pd.concat([table[fraud], others]).sample(frac=1, random_state=0)


def compare(
    name: str,
    synthesizers: Mapping[str, BaseEstimator],
    train: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    **options: object,
) -> ComparisonResult:
    """Compare synthesizers, unless the files of results have this comparison.

    Parameters
    ----------
    name : str
        Name of the files.
    synthesizers, train, test, target, **options
        As in `compare_synthesizers`.

    Returns
    -------
    ComparisonResult
        Scores and runs; without rows for plots of pairs, which are large.
    """
    if QUICK:
        options |= _REHEARSED
        synthesizers = {key: _hurried(value) for key, value in synthesizers.items()}
    files = [folder() / f"{name}_{kind}.csv" for kind in ("scores", "runs")]
    if all(file.exists() for file in files):
        scores, runs = (pd.read_csv(file) for file in files)
        if set(runs[_KEYS].itertuples(index=False, name=None)) >= _wanted(
            synthesizers, options
        ):
            runs[["warned", "error"]] = runs[["warned", "error"]].fillna("")
            return ComparisonResult(scores, runs, {}, target)
    result = compare_synthesizers(
        synthesizers,
        train,
        test,
        target,
        folder=_runs_folder() / name,
        **options,
    )
    if (result.runs["error"] != "").any():
        return result  # not kept: the next call tries the failed runs again
    folder().mkdir(parents=True, exist_ok=True)
    for table, file in zip((result.scores, result.runs), files, strict=True):
        table.to_csv(file, index=False, float_format="%.6g")
    return result


def folder() -> Path:
    """Give the folder of results: two small files for each comparison."""
    return _runs_folder() if QUICK else HERE / "results" / "kaggle_credit"


def _runs_folder() -> Path:
    """Give the folder of single runs, which is not kept under version control."""
    return HERE / "output" / ("kaggle_credit_quick" if QUICK else "kaggle_credit")


def _hurried(synthesizer: BaseEstimator) -> BaseEstimator:
    """Give a synthesizer little to train, where it trains."""
    few = {"n_iter": 1, "n_student_steps": 2}
    names = synthesizer.get_params()
    changes = {key: few[key] for key in few if key in names}
    return clone(synthesizer).set_params(**changes)


def _wanted(
    synthesizers: Mapping[str, BaseEstimator], options: Mapping[str, Any]
) -> set[tuple[str, float, int]]:
    """List the runs of a comparison by synthesizer, epsilon and repeat."""
    return {
        (name, float(epsilon), repeat)
        for name, synthesizer in synthesizers.items()
        for epsilon in (
            options.get("epsilons", (1.0,))
            if "epsilon" in synthesizer.get_params()
            else (math.inf,)
        )
        for repeat in range(options["n_repeats"])
    }


def run_cells() -> None:
    """Run the notebook's code in this process, with a bar for the comparison."""
    os.environ["MPLBACKEND"] = "Agg"
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": NOTEBOOK.stem}
    for number, code in enumerate(codes, 1):
        start = time.perf_counter()
        exec(compile(code, f"{NOTEBOOK.name}, code cell {number}", "exec"), names)
        seconds = time.perf_counter() - start
        print(f"code cell {number} of {len(codes)}: {seconds:.0f} s", flush=True)
    print(f"the results are in {folder()}")


def execute() -> None:
    """Execute the notebook in place; one that went wrong is not written."""
    import nbformat
    from nbclient import NotebookClient

    # The kernel has no bar to draw (fits show their log), and need not say that
    # ipywidgets is not there.
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(HERE)}},
    )
    start = time.perf_counter()
    client.execute()
    text = nbformat.writes(notebook)
    streams = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    noise = [output["text"] for output in streams if output.get("name") == "stderr"]
    # The folder of the user and that of the project, in outputs or error messages.
    paths = [str(path) for path in (Path.home(), HERE.parent) if str(path) in text]
    if noise or paths or len(text) > _LARGEST:
        msg = (
            f"Expected a notebook of at most {_LARGEST:,} bytes without warnings and "
            f"paths of this machine. Got {len(text):,} bytes, the paths {paths} and "
            f"{len(noise)} texts on stderr: {''.join(noise)[:2_000]!r}. It is left as "
            "it was."
        )
        raise RuntimeError(msg)
    NOTEBOOK.write_text(text, encoding="utf-8")
    seconds = time.perf_counter() - start
    print(f"executed {NOTEBOOK.name} in {seconds:.0f} s, {len(text):,} bytes")


def main() -> None:
    """Run the comparison, or execute the notebook."""
    options = _options()
    if options.data:
        os.environ["KAGGLE_CREDIT"] = str(options.data.resolve())
    if options.fresh:
        for path in (folder(), _runs_folder()):
            shutil.rmtree(path, ignore_errors=True)
    if options.execute:
        execute()
    else:
        with parallel_config(n_jobs=options.jobs):
            run_cells()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, help="file of the table; by default cache or OpenML")
    add("--jobs", type=int, default=2, help="runs at the same time, of one thread each")
    add("--execute", action="store_true", help="execute the notebook in place")
    add("--quick", action="store_true", help="rehearse, with few rows and repeats")
    add("--fresh", action="store_true", help="forget runs and results first")
    return parser.parse_args()


if __name__ == "__main__":
    if "--quick" in sys.argv:
        os.environ["KAGGLE_CREDIT_QUICK"] = "1"
    # By its name, so that the notebook's code and its workers find the same module.
    import kaggle_credit_runs

    kaggle_credit_runs.main()
