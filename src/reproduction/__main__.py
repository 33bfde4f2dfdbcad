"""Entry point of `python -m reproduction COMMAND`, in the folder of a scale of a clone."""

from reproduction.commands import main

main()
