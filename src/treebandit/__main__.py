"""`python -m treebandit`: the command line."""

from treebandit.cli import main

if __name__ == "__main__":
    main()
