"""``python -m sdk``: the command without its launcher."""

from sdk.cli import main

main()
