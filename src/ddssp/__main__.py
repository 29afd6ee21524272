"""`python -m ddssp`: the command line."""

from ddssp.cli import main

if __name__ == "__main__":
    main()
