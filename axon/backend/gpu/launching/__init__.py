"""The CUDA driver, and what is put on streams again and again: launches, graphs of them, and scripts of both."""
