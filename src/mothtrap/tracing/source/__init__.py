"""Source code of the user's program: lines, variables, loops, file names."""
