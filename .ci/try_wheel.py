"""Try the installed package as a stranger would: the README's example, and a shell.

Run by `make dist` with the interpreter of a fresh environment.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import skdpsynth


def main() -> None:
    """Run everything in a folder of its own."""
    readme = Path(sys.argv[1]).read_text(encoding="utf-8")
    program = Path(sys.executable).with_name("skdpsynth")
    assert Path(skdpsynth.__file__).is_relative_to(sys.prefix), skdpsynth.__file__
    assert importlib.metadata.version("skdpsynth") == skdpsynth.__version__
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        example = re.search(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
        names: dict = {}
        exec(compile(example[1], "README.md", "exec"), names)
        assert len(names["fake"]) == 10_000
        names["train"].to_parquet("adult.parquet")
        Path("adult.skdp").unlink()
        fit = re.search(r"^# In a shell.*: skdpsynth (.*)$", example[1], re.MULTILINE)[
            1
        ]
        for line in (fit, "sample adult.skdp -n 100 -o fake.csv", "report adult.skdp"):
            print("$ skdpsynth", line, flush=True)
            subprocess.run([program, *line.split()], check=True)
        lines = Path("fake.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 101
        assert lines[0].split(",") == list(names["train"].columns)
        os.chdir(Path(folder).parent)


if __name__ == "__main__":
    main()
