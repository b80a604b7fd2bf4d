"""Analysis of the user's source code together with the values of the running program."""
