"""What is wrong with a program, in words: types, sizes, names, calls, each with the places that decided it."""
