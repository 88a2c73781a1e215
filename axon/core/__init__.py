"""Core: the typed first-order tensor IR between the language and every backend."""
