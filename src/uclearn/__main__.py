"""`python -m uclearn` is the command `uclearn`."""

from uclearn.cli.app import main

if __name__ == "__main__":  # processes that the command starts import this, too
    main()
