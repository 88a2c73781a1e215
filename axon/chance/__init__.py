"""Models: functions with `~` in them, made into ordinary functions, syntax → syntax, before any type is known."""
