"""What all tests share: messages are the same on every machine."""

import os

os.environ["NO_COLOR"] = "1"
os.environ.pop("AXON_DEBUG", None)
