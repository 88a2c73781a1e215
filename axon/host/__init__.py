"""The Python face: values of callers matched with types, calls, modules and functions as Python objects."""
