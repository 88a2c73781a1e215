"""What all writers of kernels share: scalar expressions as text, reductions, checks of what was written."""
