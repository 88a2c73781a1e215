"""Stage two of inference: equations solved, ranges found, obligations proved, and what remains said shortly."""
