"""Write what completes the command `berth` in bash, made of the command's own parsers.

Usage: python -m tools.completion FILE
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from berth.cli.commands import COMMANDS
from berth.cli.parsing import Command
from tools.command_reference import arguments_of

_SCRIPT: Final = """\
# Made by tools/completion.py from the parsers of berth.
_berth() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' options='' actions='' takes_file='' takes_word='' files='' index
    for ((index = 1; index < COMP_CWORD; index++)); do
        [[ ${COMP_WORDS[index]} == -* ]] || { command=${COMP_WORDS[index]}; break; }
    done
    COMPREPLY=()
    case $command in
    '') actions='@COMMANDS@' options='--help --version' ;;
@CASES@
    *) return ;;
    esac
    case " $takes_word " in *" $before "*) return ;; esac
    case " $takes_file " in
    *" $before "*) files=yes ;;
    *)
        if [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
            return
        fi
        # What names an action stands first behind the command.
        if [[ -n $command && $before != "$command" ]]; then actions=''; fi
        mapfile -t COMPREPLY < <(compgen -W "$actions" -- "$word")
        ;;
    esac
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _berth berth
"""


def script() -> str:
    """The whole file."""
    names = " ".join(each.name for each in COMMANDS)
    cases = "\n".join(map(_case, COMMANDS))
    return _SCRIPT.replace("@COMMANDS@", names).replace("@CASES@", cases)


def _case(command: Command) -> str:
    actions = arguments_of(command)
    operands = [each for each in actions if not each.option_strings]
    options = [each for each in actions if each.option_strings]
    sets = {
        "options": ["--help", *_names(options)],
        "takes_file": _names(each for each in options if each.type is Path),
        "takes_word": _names(each for each in options if each.nargs != 0 and each.type is not Path),
        "actions": [str(choice) for each in operands for choice in each.choices or ()],
        "files": ["yes" for each in operands if each.type is Path],
    }
    told = " ".join(f"{name}='{' '.join(words)}'" for name, words in sets.items() if words)
    return f"    {command.name}) {told} ;;"


def _names(options: Sequence[argparse.Action] | Iterator[argparse.Action]) -> list[str]:
    return [name for each in options for name in each.option_strings]


def main(arguments: Sequence[str]) -> int:
    """Write it."""
    (file,) = map(Path, arguments)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
