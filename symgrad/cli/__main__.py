"""``python -m symgrad.cli``: the command line."""

from symgrad.cli import main

if __name__ == "__main__":
    main()
