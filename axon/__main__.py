"""`python -m axon` is the command line."""

import sys

from axon.cli import main

sys.exit(main())
