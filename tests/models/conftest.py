"""The golden files' helpers are those of the corpus."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "corpus"))
