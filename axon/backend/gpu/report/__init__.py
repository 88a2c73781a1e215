"""What is said about kernels: `axon explain` and `axon emit`, timelines, measurements."""
