"""What the command line does with files: checks, lists, tests, stubs, watches."""
