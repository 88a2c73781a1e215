"""Text to syntax and back: `parse.parse`, `format.format_source`; the rules are `axon.lark`.

Nothing is imported before it is needed.
"""
