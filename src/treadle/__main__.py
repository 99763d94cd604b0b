"""`python -m treadle` is the command `treadle`."""

from treadle.cli.entry_point import main

if __name__ == "__main__":
    main()
