"""What is deprecated warns who calls it, and is gone when it was said to be."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _instances import PLAIN, TRAINED
from sklearn.base import clone

import skdpsynth
from skdpsynth.__main__ import main
from skdpsynth.schema import Continuous
from skdpsynth.utils import warn_deprecated

PACKAGE = Path(skdpsynth.__file__).parent


def old() -> None:
    """Warn of itself."""
    warn_deprecated("old()", since="0.2", removed_in="0.4", remedy="Use new().")


def test_a_warning_points_at_the_line_of_who_calls():
    words = (
        r"^old\(\) is deprecated since 0.2 and will be removed in 0.4. Use new\(\).$"
    )
    with pytest.warns(FutureWarning, match=words) as caught:
        old()
    assert caught[0].filename == __file__


def test_nothing_outlives_its_removal():
    now = skdpsynth.__version__.split(".")
    found = [
        version
        for path in PACKAGE.rglob("*.py")
        for version in re.findall(
            r'removed_in"?[=:] ?"([\d.]+)"', path.read_text("utf-8")
        )
    ]
    assert found
    assert all([*map(int, own.split("."))] > [*map(int, now)] for own in found)


@pytest.mark.parametrize("init", ["pairs", "marginals"])
@pytest.mark.parametrize("name", TRAINED)
def test_the_old_initialisations_warn_and_mean_the_measured_one(name, init):
    schema = skdpsynth.TableSchema({"x": Continuous(0, 1), "y": Continuous(0, 1)})
    old, new = (
        clone(PLAIN[name]).set_params(schema=schema, init=own)
        for own in (init, "measured")
    )
    with pytest.warns(FutureWarning, match="init='measured'"):
        plan = old.plan(50_000)
    pd.testing.assert_frame_equal(plan, new.plan(50_000))


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("words", ["check", "plan --rows=99", "fit -o m"])
def test_bounds_of_durations_without_a_unit_say_what_they_do(words, tmp_path, capsys):
    """By every command: the column, the unit, what happens, and the line to write."""
    table, file = tmp_path / "t.parquet", tmp_path / "s.json"
    pd.DataFrame({"stay": pd.to_timedelta(range(99), unit="D")}).to_parquet(table)
    skdpsynth.TableSchema({"stay": Continuous(0, 400)}).to_json(file)
    command, *flags = words.replace(" m", f" {tmp_path}/m").split()
    flags += ["--epsilon=1"] * (command != "check")
    assert main([command, str(table), f"--schema={file}", *flags]) == 0
    told = r"in seconds, .*'stay'.*above 400 seconds are clipped.*({.*})"
    line = json.loads(re.search(told, capsys.readouterr().err)[1])
    assert [line[name] for name in ("low", "high", "unit")] == ["0D", "400D", "D"]


# Parameters of 0.2 that went.
_OF_ALL = ["noise_multiplier", "latent_dim", "generator_hidden_dims", "verbose"]
_OF_VOTES = [*_OF_ALL, "learning_rate", "teacher_learning_rate", "n_generator_steps"]
_OF_STEPS = [*_OF_ALL, "discriminator_learning_rate", "n_generator_steps"]
GONE = {
    "IndependentSynthesizer": ["verbose"],
    "MarginalSynthesizer": ["verbose"],
    "GPATESynthesizer": [
        *(own for own in _OF_VOTES if own != "n_generator_steps"),
        *("aggregator", "n_teacher_steps", "threshold"),
    ],
    "PATEGANSynthesizer": [*_OF_VOTES, "student_learning_rate"],
    "DPCGANSynthesizer": [*_OF_STEPS, "n_discriminator_steps"],
    "DPGANSynthesizer": _OF_STEPS,
    "PATETripleGANSynthesizer": [*_OF_VOTES, "discriminator_learning_rate"],
    "GANSynthesizer": [own for own in _OF_STEPS if own != "noise_multiplier"],
}


@pytest.mark.parametrize("name", PLAIN)
def test_parameters_that_went_warn_with_the_remedy_and_do_nothing(name):
    cls = type(PLAIN[name])
    for parameter in GONE[name]:
        with pytest.warns(FutureWarning, match=f"^{parameter} is deprecated") as caught:
            synthesizer = cls(**{parameter: 3})
        (warning,) = caught
        assert warning.filename == __file__
        assert len(str(warning.message).split("removed in 0.5. ")[1]) > 10
        assert parameter not in inspect.signature(cls).parameters
        assert synthesizer.get_params() == cls().get_params()
        assert clone(synthesizer).get_params() == cls().get_params()
        assert not hasattr(synthesizer, parameter) or parameter in vars(cls.__mro__[1])


def test_other_unknown_parameters_are_errors():
    with pytest.raises(TypeError, match="depth"):
        skdpsynth.GPATESynthesizer(depth=3)
    with pytest.raises(ValueError, match="threshold"):
        skdpsynth.GPATESynthesizer().set_params(threshold=0.5)


@pytest.mark.usefixtures("short_fits")
def test_the_old_name_of_the_marginal_synthesizer_is_the_same_class(tmp_path):
    """And a file of the old name is read by the new one."""
    with pytest.warns(FutureWarning, match="MarginalSynthesizer") as caught:
        assert skdpsynth.PairwiseSynthesizer is skdpsynth.MarginalSynthesizer
    assert caught[0].filename == __file__
    old = type("PairwiseSynthesizer", (skdpsynth.MarginalSynthesizer,), {})
    synth = old(9.0, random_state=0).fit(pd.DataFrame({"x": np.arange(200) % 7 / 2}))
    synth.save(tmp_path / "old")
    assert skdpsynth.inspect(tmp_path / "old")["synthesizer"] == "PairwiseSynthesizer"
    again = skdpsynth.MarginalSynthesizer.load(tmp_path / "old")
    ours, theirs = (own.sample(20, random_state=1) for own in (synth, again))
    pd.testing.assert_frame_equal(ours, theirs)
