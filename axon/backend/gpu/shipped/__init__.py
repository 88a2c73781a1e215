"""Programs as data that a library launches: at sizes that are known, and at all others. Made without a GPU."""
