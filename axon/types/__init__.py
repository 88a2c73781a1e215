"""Stage one of inference: element types, ranks and functions, blind to sizes."""
