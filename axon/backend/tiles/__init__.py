"""Contractions as views: strides that BLAS takes, and tables of places that register tiles read."""
