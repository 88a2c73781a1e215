"""The tests: a folder for each folder of `axon/`, beside suites that cut across. `tests/test_architecture.py` holds the mirror."""

from pathlib import Path

ROOT = Path(__file__).parents[1]  # of the repository
