"""Tile programs as roles that meet at barriers, with every count, byte and wait written out."""
