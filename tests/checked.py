"""Programs of which several tests ask something: a text is checked once in a process."""

from __future__ import annotations

from functools import cache

import axon
from axon import compiler

checked = cache(compiler.check_text)
compiled = cache(axon.compile)
