"""A folder of finished runs, from which what was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from skdpsynth.utils._json import DAMAGED


class RunFolder:
    """One JSON file per run, found by its name and its key, and never half written."""

    def __init__(self, path: str | os.PathLike[str], readme: str) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "README.txt").write_text(readme, encoding="utf-8")

    def read(self, name: str, key: list[Any]) -> Any:  # noqa: ANN401 - JSON
        """Give what was written; None if there is no whole file of it."""
        digest = _digest(key)
        try:
            text = self._file(name, digest).read_text(encoding="utf-8")
            document = json.loads(text)
            return document["run"] if document["key"] == digest else None
        except (OSError, *DAMAGED):
            return None  # absent, torn or of another kind: the run is made again

    def write(self, name: str, key: list[Any], content: object) -> None:
        """Keep what a run gave."""
        digest = _digest(key)
        handle, draft = tempfile.mkstemp(dir=self._path, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"key": digest, "run": content}, file)
            os.replace(draft, self._file(name, digest))
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def _file(self, name: str, digest: str) -> Path:
        return self._path / f"{name}-{digest[:16]}.json"


def _digest(key: list[Any]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()
