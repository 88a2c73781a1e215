"""Checking a module: its files are found, its declarations inferred in order, its signatures made."""
