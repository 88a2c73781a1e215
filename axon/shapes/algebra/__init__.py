"""Facts and proofs about sizes: what decides relations, refutes them, or finds sizes that violate them."""
