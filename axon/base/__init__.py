"""The vocabulary that every folder shares: places in texts, names, element types, diagnostics and their layout, passes."""
