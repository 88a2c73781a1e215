"""`python -m axon` is the command line."""

import sys

from axon.tools.cli import main

sys.exit(main())
