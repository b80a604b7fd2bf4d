"""`python -m mothtrap`: the same as the command `mothtrap`."""

from mothtrap.cli import main

if __name__ == "__main__":
    main(prog_name="mothtrap")
