"""Real tables: three in the package, and one that is fetched."""

from skdpsynth.datasets._tables import (
    fetch_epileptic_seizure as fetch_epileptic_seizure,  # until 0.5
    fetch_isolet as fetch_isolet,
    fetch_kaggle_credit,
    load_adult,
    load_cervical_cancer,
    load_thyroid,
)

__all__ = ["fetch_kaggle_credit", "load_adult", "load_cervical_cancer", "load_thyroid"]
