"""Changes of the source that may mend an error: proposed here, tried by the checker, and shown only if they help."""
