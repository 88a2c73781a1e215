"""What a call must satisfy, how its sizes are found, and the guard that checks it."""
