"""``python -m symgrad``: the command line."""

from symgrad.cli import main

if __name__ == "__main__":
    main()
