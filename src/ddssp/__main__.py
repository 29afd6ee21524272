"""`python -m ddssp`: the command line."""

from ddssp.cli import main

main()
