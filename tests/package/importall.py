"""Imports every module of the folders that it is given, and tells as JSON which cannot be, and why.

Run by every Python that there is, as the launchers are: ``python3 -IS importall.py FOLDER…``. It
imports nothing of ours before that.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings


def import_below(folder: str, prefix: str, failed: dict[str, str]) -> int:
    """Import all of a folder; gives how many modules there are."""
    count = 0
    for module in pkgutil.iter_modules([folder], prefix):
        if module.name.endswith("__main__"):
            continue
        count += 1
        try:
            made = importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 - a module may fail by anything
            failed[module.name] = f"{type(error).__name__}: {error}"
            continue
        if module.ispkg:
            for below in made.__path__:
                count += import_below(below, f"{module.name}.", failed)
    return count


def main(folders: list[str]) -> None:
    """Import all of them."""
    warnings.simplefilter("ignore")
    sys.path[:0] = folders
    failed: dict[str, str] = {}
    count = sum(import_below(folder, "", failed) for folder in folders)
    sys.stdout.write(json.dumps({"count": count, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1:])
