"""The command line, notebooks, the prompt, editors, and pictures: what stands on the compiler."""
