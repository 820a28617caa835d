"""The operator's command ``berth``: arguments in, words or JSON out, an exit code.

Everything is imported where a command needs it and not before: ``berth --help`` loads no gRPC, and
``berth check`` no daemon.
"""

from berth.cli.command import main

__all__ = ["main"]
