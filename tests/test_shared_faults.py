"""Inputs on which earlier versions failed: what comes back of each, or is told."""

import re
import shlex
import subprocess
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from skdpsynth.__main__ import main

FOLDER = Path(__file__).parents[2] / "shared" / "faults"
# What is left out of a file to be quick, and put in its place.
QUICK = {
    "05": (",(8000,1.),(30000,1.),(30000,10.)", ","),
    "06": (',float("inf")', ","),
    "22": ("(3000,8000,30000)", "(8000,)"),
    "24": ('"quality_report c2st (synthetic, real):",c(r,s)', ""),
}
# By the first letters of a file: what its output, warnings and error must match.
RIGHT = {
    "01": r'"datetime".*"%Y-%m-%d".*joined,x\n(20\d\d-\d\d-\d\d,-?\d\.\d+\s)+',
    "03": r"0.5 .*\n0.5 +[12]\.\d+e\+30 +2.2\d+e-12 +[45]\.\d+e-12",
    "04": "add --na-values=-(.*refuses){2}.*'creatinine'.*is none",
    "05": r" rule .* 1.0 \| stay mean (4.[3-9]|5.[0-7]) 95% ([789]|1[01])\.",
    "06": r"(distance of hours 0.0[012].*){3}",
    "08": r"days: 0.0 .*\"...D\", unit=.*'rented_for'.*400 seconds.*\"400D\"",
    "09": "'low' bound of Datetime must be .*ISO",
    "10": r"i( +int64){3}\nf( +float64){3}\nd +(\S+)( +\3){2}\ns +(\S+)( +\5){2}\n",
    "11": r"{\d{3,5}: .*{Timestamp.*modelled as a measurement.*Continuous\(",
    "12": r"^(?!.*Identifier).*'sex', 'price'.*Categorical\(",
    "14_": "(OK .*){4}low.*high.*state it too, or none",
    "14b": r"decimals=2.*weight,day\n(-?\d+\.\d\d,-?\d+\.\d,[-\d]{10}\n){4}",
    "16": r"_datetime.*_timedelta.*float.*string.*decode.*DataF.*convert_dtypes.*"
    r"as_frame.*(DataFrame.*){3}concat.*table itself",
    "17": r"price\n(\d+\.\d\d\n){12}",
    "19": r"\['x', 'year'\] -> \['x', 'year'\]",
    "20": "Delta is above 0.001",
    "22": "^(?!.*COLLAPSED)",
    "24": r"shuffled +({'L\w+': 0.[45].*?}).* day +\1.*({'L\w+': 0.6.*?}).* day +\2",
}


@pytest.mark.usefixtures("frozen_noise", "few_trees")
@pytest.mark.parametrize("name", RIGHT)
def test_what_failed_is_right_or_told(name, monkeypatch, tmp_path, capsys):
    if not FOLDER.exists():
        pytest.skip("the inputs lie beside a clone of the project, in shared/faults")
    (file,) = FOLDER.glob(f"{name}*.py")
    left_out, others = QUICK.get(name, ("", ""))
    source = file.read_text()
    assert left_out in source
    real = subprocess.run

    def run(command, **how):
        """Run a command of ours in this process, without what only shortens it."""
        if not command.startswith("skdpsynth"):
            return real(command, **how)
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as said:
            main(shlex.split(command.partition(" | ")[0])[1:])
        return subprocess.CompletedProcess(command, 0, out.getvalue(), said.getvalue())

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            exec(source.replace(left_out, others), {})
        except Exception as error:
            told.append(error)
    output = "\n".join(
        [*capsys.readouterr(), *(str(getattr(w, "message", w)) for w in told)]
    )
    assert re.search(RIGHT[name], output, re.DOTALL), output
