"""What all tests share: core is verified after every lowering, and messages are the same on every machine."""

import os

os.environ["AXON_VERIFY"] = "1"
os.environ["NO_COLOR"] = "1"
os.environ.pop("AXON_DEBUG", None)
