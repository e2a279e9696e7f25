"""
The command line
================

From a shell: schema, plan, fit, sample, report.
"""

# %%
# Three columns of the thyroid table as a CSV file.

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth.datasets import load_thyroid

folder = Path(tempfile.mkdtemp())
load_thyroid()[["age", "TSH", "class"]].to_csv(folder / "private.csv", index=False)


def skdpsynth(*arguments):
    """Run one command and print what it prints."""
    print("$ skdpsynth", *arguments)
    command = [sys.executable, "-m", "skdpsynth", *arguments]
    done = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    )
    print(done.stdout)


# %%
# A template has the names and kinds of columns, and blanks.

skdpsynth("schema", "private.csv", "-o", "schema.json")
print((folder / "schema.json").read_text())

# %%
# Fill in what is public: ages are scaled to [0, 1], and there are three classes.
# Nothing is known about TSH, so its blanks stay, and its range is measured.

schema = json.loads((folder / "schema.json").read_text())
schema["columns"][0][1] = {"kind": "continuous", "low": 0, "high": 1}
schema["columns"][2][1] = {"kind": "categorical", "categories": [1, 2, 3]}
schema["target"] = "class"
(folder / "schema.json").write_text(json.dumps(schema))

guess = ["--class-count", "1=150", "2=350", "3=6500"]
skdpsynth("plan", "private.csv", "--schema", "schema.json", "--epsilon", "3", *guess)

# %%
# Fit, sample, and read the report. The model can be published; the CSV file of real
# rows stays private.

fit = ["fit", "private.csv", "--schema", "schema.json", "--epsilon", "3"]
skdpsynth(*fit, "--synthesizer", "Marginal", "-o", "model.skdp")
skdpsynth("sample", "model.skdp", "-n", "7200", "-o", "synthetic.csv")
skdpsynth("report", "model.skdp")

# %%
# TSH of the three classes, on a logarithmic axis. The first class has only 166 rows, so
# its distribution comes out poor.

real = pd.read_csv(folder / "private.csv")
fake = pd.read_csv(folder / "synthetic.csv")
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharex=True)
bins = np.geomspace(1e-4, 1, 25)
for label, ax in zip((1, 2, 3), axes, strict=True):
    for rows, style in ((real, {"color": "0.75"}), (fake, {"histtype": "step"})):
        values = rows.loc[rows["class"] == label, "TSH"].clip(1e-4)
        weights = np.full(len(values), 1 / max(len(values), 1))
        ax.hist(
            values, bins, weights=weights, ec="k" if rows is fake else None, **style
        )
    ax.set(xscale="log", title=f"class {label}", xlabel="TSH, as published")
axes[0].set_ylabel("share of the class\n(grey real, line synthetic)")
note = "contains private statistics: drawn from real rows too"
figure.supxlabel(note, fontsize=9)
plt.show()
