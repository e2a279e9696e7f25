"""Lower bounds of epsilon on a worst-case pair of tables, for every synthesizer.

Run ``python benchmarks/audit.py``; what is in benchmarks/results/audit.csv is skipped,
and an audit that was broken off goes on. Then it writes the table in docs/audit.md.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from _common import use_one_thread

import skdpsynth
from skdpsynth.audit import GeneratorAudit, audit_generator
from skdpsynth.schema import Categorical, Continuous, TableSchema

if TYPE_CHECKING:
    from skdpsynth.base import BaseSynthesizer

EPSILON, DELTA = 1.0, 1e-5
N_RUNS, N_SAMPLES = 200, 300
N_RUNS_WITHOUT_NOISE = 80  # to see what the attack can do
_HERE = Path(__file__).parent
_RESULTS = _HERE / "results" / "audit.csv"
_PAGE = _HERE.parent / "docs" / "audit.md"
_BEGIN = "<!-- benchmarks/audit.py writes from here -->"
_END = "<!-- to here -->"
_RUNS = Path(tempfile.gettempdir()) / "skdpsynth-audit"  # of audits broken off


def _schema(
    columns: str, n_rows: int, others: dict[str, Categorical] | None = None
) -> TableSchema:
    column = Continuous(-10, 10, scale="linear", decimals="any")
    every = {**dict.fromkeys(columns, column), **(others or {})}
    return TableSchema(every, n_rows=n_rows)


SCHEMA = _schema("ab", 2)
# Two rows in one corner of the domain, and the canary in the opposite one.
TABLE = pd.DataFrame({"a": [-8.2, -8.9], "b": [-8.5, -8.1], "c": [-8.7, -8.4]})
CANARY = dict.fromkeys("abc", 9.5)
# Rows are counted in each class, so tables are measured only where there are rows.
_LABEL = {"y": Categorical(["p", "q"], nullable=True)}
UNLABELLED = "PATE-TripleGAN, rows without a label"
MIXED = pd.concat([TABLE[["a", "b"]]] * 500, ignore_index=True)
MIXED["y"] = [("p", "q", None, None)[i % 4] for i in range(len(MIXED))]

_ROUNDS = {"init": "random", "n_iter": 10}
_ALONE = {**_ROUNDS, "batch_size": 4, "latent_dim": 1, "n_teachers": 1}
_VOTES = {"aggregator": "confident_gnmax", "n_bins": 2}
_SHORT = {**_ROUNDS, "n_generator_steps": 2}
_LABELS = {
    **{"init": "random", "n_teachers": 1, "n_iter": 3, "batch_size": 8},
    **{"n_student_steps": 5, "n_generator_steps": 5},
}
# `as_published` but for one teacher and fewer and smaller steps.
_LAYERS = {"generator_hidden_dims": (16,), "hidden_dims": (16,)}
_PAPER = {"n_iter": 10, "batch_size": 1, **_LAYERS}
_PAPER_VOTES = {**_LAYERS, **_LABELS}
_MARGINAL = "MarginalSynthesizer"
# Declared are more rows than there are: by them it is decided what is measured.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "independent": ("IndependentSynthesizer", {}),
    "second moments": (_MARGINAL, {"schema": _schema("ab", 300)}),
    "table of 2 columns": (_MARGINAL, {"schema": _schema("ab", 3000)}),
    "table of 3 columns": (_MARGINAL, {"schema": _schema("abc", 3000)}),
    UNLABELLED: (
        "PATETripleGANSynthesizer",
        {"schema": _schema("ab", len(MIXED), _LABEL), "target": "y"},
    ),
    "G-PATE": ("GPATESynthesizer", _ALONE),
    "G-PATE, votes": ("GPATESynthesizer", {**_ALONE, **_VOTES}),
    "G-PATE, networks": (
        "GPATESynthesizer",
        {**_PAPER, "n_teachers": 1, "batch_size": 4},
    ),
    "PATE-GAN": ("PATEGANSynthesizer", _LABELS),
    "PATE-GAN, Laplace": ("PATEGANSynthesizer", {**_LABELS, "noise": "laplace"}),
    "PATE-GAN, networks": ("PATEGANSynthesizer", _PAPER_VOTES),
    "DP-CGAN": ("DPCGANSynthesizer", _SHORT),
    "DP-CGAN, sampled": ("DPCGANSynthesizer", {**_SHORT, "batch_size": 1}),
    "DP-CGAN, networks": ("DPCGANSynthesizer", {**_PAPER, "n_iter": 100}),
    "DPGAN": ("DPGANSynthesizer", _SHORT),
    "DPGAN, networks": ("DPGANSynthesizer", _PAPER),
    "PATE-TripleGAN": ("PATETripleGANSynthesizer", _LABELS),
    "PATE-TripleGAN, DP-SGD": (
        "PATETripleGANSynthesizer",
        {**_SHORT, "desensitization": "dpsgd"},
    ),
    "PATE-TripleGAN, networks": ("PATETripleGANSynthesizer", _PAPER_VOTES),
}


def synthesizer(name: str, epsilon: float = EPSILON) -> BaseSynthesizer:
    """Make the unfitted synthesizer of a case."""
    cls, settings = CASES[name]
    fixed = {"epsilon": epsilon, "delta": DELTA, "schema": SCHEMA, "random_state": 0}
    kind = getattr(skdpsynth, cls)
    make = kind.as_published if name.endswith(", networks") else kind
    made: BaseSynthesizer = make(**{**fixed, **settings})
    return made


def run(name: str, n_runs: int, epsilon: float = EPSILON) -> GeneratorAudit:
    """Audit one case; runs of an audit that was broken off are kept."""
    part = f"{name}-{epsilon:g}".replace(" ", "-")
    folder, made = _RUNS / part, synthesizer(name, epsilon)
    columns = list(made.schema.columns)
    table = MIXED if name == UNLABELLED else TABLE
    found = audit_generator(
        made,
        table[columns],
        {column: CANARY.get(column) for column in columns},
        epsilon=EPSILON,  # the claim, also where there is no noise
        n_runs=n_runs,
        n_samples=max(N_SAMPLES, 5 * len(table)),  # some of the canary's cell
        folder=folder,
        verbose=1,
    )
    shutil.rmtree(folder)
    return found


def row_of(
    name: str, found: GeneratorAudit, silent: GeneratorAudit, seconds: float
) -> dict[str, object]:
    """Put a result, and that of the same fit without noise, into one line."""
    return {
        "synthesizer": name,
        "runs": 2 * N_RUNS,
        "claim": found.claim,
        "delta": found.delta,
        "lower_bound": found.lower_bound,
        "mu_lower_bound": found.mu_lower_bound,
        "gdp_lower_bound": found.gdp_lower_bound,
        "confidence": found.confidence,
        "power": found.power,
        "false_alarms": found.false_alarms,
        "misses": found.misses,
        "judged": found.n_judged,
        "score": found.score,
        "without_noise": silent.lower_bound,
        "seconds": seconds,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "version": skdpsynth.__version__,
    }


def page_table(done: pd.DataFrame) -> str:
    """Write the table of the page."""
    heads = [
        *("synthesizer", "claim", "lower bound", "of mu", "power"),
        *("false alarms", "misses", "without noise", "seconds"),
    ]
    rows = [
        [
            f"{row.synthesizer}",
            f"{row.claim:g}",
            f"{row.lower_bound:.2f}",
            f"{row.mu_lower_bound:.2f}",
            f"{row.power:.2f}",
            f"{row.false_alarms} of {row.judged}",
            f"{row.misses} of {row.judged}",
            f"{row.without_noise:.2f}",
            f"{row.seconds:.0f}",
        ]
        for row in done.itertuples()
    ]
    lines = [
        "| " + " | ".join(cells) + " |"
        for cells in (heads, ["---"] * len(heads), *rows)
    ]
    dates = " to ".join(sorted({done["date"].min(), done["date"].max()}))
    return "\n".join([*lines, "", f"Runs of {dates}."])


def write_page(done: pd.DataFrame) -> None:
    """Replace the table in docs/audit.md."""
    text = _PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    text = f"{before}{_BEGIN}\n\n{page_table(done)}\n\n{_END}{after}"
    _PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run what is not in the file of results yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="start anew")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    if options.fresh:
        _RESULTS.unlink(missing_ok=True)
        shutil.rmtree(_RUNS, ignore_errors=True)  # runs of older code
    use_one_thread()
    done = pd.read_csv(_RESULTS) if _RESULTS.exists() else pd.DataFrame()
    known = set(done.get("synthesizer", []))
    for name in options.only:
        if name in known:
            continue
        print(name, flush=True)
        start = time.perf_counter()
        found = run(name, N_RUNS)
        print(found, flush=True)
        seconds = time.perf_counter() - start
        silent = run(name, N_RUNS_WITHOUT_NOISE, float("inf"))
        line = pd.DataFrame([row_of(name, found, silent, seconds)])
        header = not _RESULTS.exists()
        line.to_csv(_RESULTS, mode="a", header=header, index=False)
    done = pd.read_csv(_RESULTS).set_index("synthesizer", drop=False)
    write_page(done.loc[[name for name in CASES if name in done.index]])


if __name__ == "__main__":
    main()
