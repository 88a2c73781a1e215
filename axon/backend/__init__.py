"""From core to warp-specialized kernels; docs/backend.md walks through the phases in order."""
