"""Images as tables: a network learns from synthetic ones, and real ones score it.

MNIST and Fashion-MNIST as tables of 784 pixels and a label. 30,000 synthetic rows train
a small convolutional network for two epochs; its accuracy is that on the 10,000 real
test images. Run ``python benchmarks/images.py``; what is in benchmarks/results is
skipped, and a picture of samples is written to docs/images.
"""

from __future__ import annotations

import argparse
import math
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _common import (
    DELTA,
    REAL,
    RESULTS,
    SYNTHESIZERS,
    code_state,
    error_text,
    fit_and_sample,
    mean_and_spread,
    print_columns,
    print_states,
    run_missing,
)
from _tables import read_idx
from torch.nn import functional

import skdpsynth
from skdpsynth.schema import Categorical, Continuous, TableSchema

DATA = Path(__file__).parents[2] / "shared" / "data"
PICTURES = Path(__file__).parents[1] / "docs" / "images"
TABLES = ("mnist", "fashion-mnist")
KEYS = ["table", "synthesizer", "epsilon", "seed"]
COSTS = ["certified_epsilon", "fit_s", "peak_gb", "sample_s"]
COLUMNS = [*KEYS, "accuracy", *COSTS, "error", "code"]
# Table 1 of the G-PATE paper (NeurIPS 2021; delta 1e-5), by table and epsilon.
PAPER = {
    ("mnist", 1.0): 0.588,
    ("mnist", 10.0): 0.809,
    ("fashion-mnist", 1.0): 0.581,
    ("fashion-mnist", 10.0): 0.693,
}
PIXELS = [f"pixel{i}" for i in range(784)]
N_SAMPLES, SIDE, SHOWN = 30_000, 28, 12
SCHEMA = TableSchema(
    {name: Continuous(0, 255, integer=True) for name in PIXELS}
    | {"label": Categorical(list(range(10)))},
    target="label",
)
Key = tuple[str, str, float, int]


def load(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the train and the test images, a row each."""
    parts = []
    for part in ("train", "t10k"):
        pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz", header=16)
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", header=8)
        table = pd.DataFrame(pixels.reshape(-1, SIDE**2), columns=PIXELS)
        parts.append(table.assign(label=labels.astype("int8")))
    return parts[0], parts[1]


def published(name: str, epsilon: float) -> dict[str, object]:
    """Give what replaces values of `as_published` where there are 784 pixels.

    The usual rounds would take hours. With noise the two that vote have as many as
    elsewhere at epsilon 1, and G-PATE so many teachers that their hidden layers would
    have 18 GB of weights.
    """
    if epsilon < math.inf and name == "G-PATE":
        return {"n_iter": 60, "hidden_dims": ()}
    if epsilon < math.inf and name == "PATE-TripleGAN":
        return {"n_iter": 20}
    if name == "PATE-TripleGAN":
        return {"n_iter": 500}  # section 5.1: 500 to 2000
    return {"batch_size": 64, "n_iter": 1200}


def accuracy(rows: pd.DataFrame, test: pd.DataFrame, seed: int) -> float:
    """Train two convolutions and a linear layer for two epochs, and score them."""
    torch.manual_seed(seed)  # noqa: TID251 - in a process of its own
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * (SIDE // 4) ** 2, 10),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    images, labels = _tensors(rows)
    for _ in range(2):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    images, labels = _tensors(test)
    with torch.no_grad():
        found = torch.cat([network(part).argmax(dim=1) for part in images.split(1000)])
    return float((found == labels).float().mean())


def _tensors(rows: pd.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
    images = rows[PIXELS].to_numpy(dtype=np.float32).reshape(-1, 1, SIDE, SIDE)
    labels = rows["label"].astype("int64").to_numpy()
    return torch.tensor(images / 255.0), torch.tensor(labels)


def run(key: Key, *, data: Path, pictures: Path | None) -> dict[str, object]:
    """Do one run; what fails gives a row with its error."""
    table, name, epsilon, seed = key
    row: dict[str, object] = dict(zip(KEYS, key, strict=True), code=code_state())
    try:
        train, test = load(data / table)
        rows = train.sample(N_SAMPLES, random_state=seed)
        if name != REAL:
            kind = getattr(skdpsynth, SYNTHESIZERS[name])
            model = kind(epsilon=epsilon, delta=DELTA, schema=SCHEMA, random_state=seed)
            rows, costs = fit_and_sample(model, train, N_SAMPLES, None)
            row |= costs | {"certified_epsilon": model.epsilon_}
        row["accuracy"] = accuracy(rows, test, seed)
        if seed == 0 and pictures is not None:
            kind_of = "real" if name == REAL else f"{name}-{epsilon:g}"
            draw(rows, pictures / f"{table}-{kind_of}.png".lower())
    except Exception as error:
        traceback.print_exc()
        row["error"] = error_text(error)
    return row


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Write the first images of every class, a line each, as they were sampled."""
    from matplotlib import image

    lines = [
        np.hstack(list(own[PIXELS].to_numpy().reshape(-1, SIDE, SIDE)))
        for _, own in rows.groupby("label").head(SHOWN).groupby("label")
    ]
    path.parent.mkdir(exist_ok=True)
    image.imsave(path, np.vstack(lines), cmap="gray", vmin=0, vmax=255)


def print_summary(rows: pd.DataFrame) -> None:
    """Print mean and standard deviation over the seeds, by table and epsilon."""
    head = ("table", "epsilon", "synthesizer", "seeds", "accuracy", "G-PATE paper")
    lines = [(*head, "fit s", "peak GB")]
    keys = ["table", "epsilon", "synthesizer"]
    for (table, epsilon, name), own in rows.groupby(keys, sort=False):
        paper = PAPER.get((table, epsilon), "-")
        cost = ("-", "-")
        if name != REAL:
            cost = (f"{own['fit_s'].mean():.0f}", f"{own['peak_gb'].max():.2f}")
        scores = mean_and_spread(own["accuracy"])
        line = (table, f"{epsilon:g}", name, str(len(own)), scores, str(paper), *cost)
        lines.append(line)
    print_columns(lines)
    for error in rows["error"].dropna().unique():
        print(f"failed: {error}")
    print_states(rows)


def main() -> None:
    """Run what is not in the file of results yet, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [REAL, *(name for name in SYNTHESIZERS if name != "GAN")]
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--synthesizers", nargs="+", choices=names, default=[REAL, "G-PATE", "DP-CGAN"])
    add("--epsilon", type=float, nargs="+", default=[1.0, 10.0], help="total budgets")
    add("--seeds", type=int, default=3, help="number of seeds")
    add("--jobs", type=int, default=2, help="runs at the same time")
    add("--data", type=Path, default=DATA, help="folder of the images")
    add("--csv", type=Path, default=RESULTS / "images.csv", help="file of results")
    add("--pictures", type=Path, default=PICTURES, help="folder of the pictures")
    options = parser.parse_args()
    wanted = [
        (table, name, math.inf if name == REAL else epsilon, seed)
        for seed in range(options.seeds)
        for table in options.tables
        for epsilon in options.epsilon
        for name in options.synthesizers
        if name != REAL or epsilon == options.epsilon[0]
    ]
    task = partial(run, data=options.data, pictures=options.pictures)
    rows = run_missing(task, wanted, options.csv, KEYS, COLUMNS, options.jobs)
    print_summary(rows)


if __name__ == "__main__":
    main()
