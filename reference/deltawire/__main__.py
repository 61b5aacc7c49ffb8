"""``python -m deltawire``: the command line."""

from deltawire.cli import main

if __name__ == "__main__":
    main()
