"""The verbs of the command line: one file each, over one function of `api`."""
