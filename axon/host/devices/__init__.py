"""Functions over several devices, one process for each: see docs/devices.md."""
