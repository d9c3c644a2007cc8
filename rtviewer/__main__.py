"""``python -m rtviewer``."""

from rtviewer.cli.main import main

if __name__ == "__main__":
    main()
