"""Text to syntax and back: `parse.parse`, `format.format_source`. Nothing is imported before it is needed."""
