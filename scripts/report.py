"""Writes one HTML page about a run or a sweep, finished or not; it needs no network to be read.

python scripts/report.py runs/simclr-vit_micro-digits/2026-12-01_01-05-40-123456
python scripts/report.py runs/sweeps/2026-12-01_01-05-40-123456
python scripts/report.py runs/simclr-vit_micro-digits --output compared.html    any folder of runs
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.errors import ConfigError
from spt.report.page import FILE, write_report


def main() -> None:
    """Writes the report that the arguments ask for, and prints where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a run, of a sweep, or any folder of runs")
    parser.add_argument("--output", type=Path, default=None, help=f"the page; {FILE} in the folder when left out")
    arguments = parser.parse_args()
    try:
        print(write_report(arguments.folder, arguments.output, now=time.time()))
    except ConfigError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
