"""What proves a barrier program sound before it is built, and what executes it without a GPU."""
