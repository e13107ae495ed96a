"""`python -m firmlake` is the same as `firmlake`."""

from firmlake.cli import main

if __name__ == "__main__":  # a process started to help imports this module again
    main()
