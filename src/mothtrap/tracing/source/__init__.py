"""The source of the user's program: lines, variables, loops, names of files."""
