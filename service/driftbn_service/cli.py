"""The command ``driftbn``: arguments in, exit code out; no traceback for what a user can cause."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final, NoReturn

import driftbn
from driftbn.errors import ConfigError, DriftbnError
from driftbn_service.errors import ExitCode, UsageError, arrow_error, naming_the_extra, part_of_kind

_COMMANDS: Final = {
    "demo": "watch a made-up stream with known drifts; needs no settings",
    "init": "write settings, rules and dashboards to begin with",
    "run": "read event streams for as long as it takes",
    "check": "check settings",
    "state": "look at the state of a daemon: list, verify, export",
    "history": "write the history as Parquet",
    "episode": "accept the present as normal, silence a stream, leave a comment",
    "report": "tell of a stream's drift: words, page, picture",
    "replay": "run a monitor over files",
    "calibrate": "tell what a monitor can see on a stream",
    "learn": "learn the graph of a table",
    "diff": "compare two graphs or two tables",
    "paper": "repeat the experiment of the paper that the learner is from",
    "warm-up": "compile everything now, as for an image",
    "completion": "print completions for bash, zsh or fish",
    "version": "print versions",
}
_ADDED_BY: Final = {
    "init": "settings.add_init_parser",
    "check": "settings.add_check_parser",
    "history": "state.add_history_parser",
    "calibrate": "replay.add_calibrate_parser",
    "warm-up": "run.add_warm_up_parser",
}
"""Of ``driftbn_service.commands``; others have a module, but for the last two. Only what is asked
for is imported."""
_COMPLETION: Final = """\
# Completions of driftbn for bash and zsh: source <(driftbn completion)
if [ -n "${{ZSH_VERSION-}}" ]; then autoload -U +X bashcompinit && bashcompinit; fi
_driftbn() {{
    local words=''
    case "${{COMP_WORDS[1]-}} ${{COMP_WORDS[2]-}} " in
{cases}
    esac
    [ "$COMP_CWORD" = 1 ] && words='{commands}'
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _driftbn driftbn
"""
_FISH: Final = """\
# Completions of driftbn for fish: driftbn completion fish | source
function __driftbn_words
    set -l words (commandline -opc)
    switch "$words[2..3] "
{cases}
        case '*'
            string split ' ' -- '{commands}'
    end
end
complete -c driftbn -a '(__driftbn_words)'
"""
SHELLS: Final = ("bash", "zsh", "fish")
_STANDS_ON: Final = ("numpy", "numba", "scipy", "pyarrow", "pandas", "networkx")
_EXIT_CODES = """exit codes:
  0    done (diff, replay: whether or not there is a difference or a drift)
  1    an input cannot be used, a package is missing, a file cannot be read or written, or a stream
       has failed
  2    arguments are not understood
  3    diff --exit-code: there is a difference; replay --exit-code: there was a drift
  78   a setting has a value that is not allowed
  130  interrupted
  141  the reader of the output has gone
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``SystemExit`` is argparse's, on ``--help`` too."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    command = words[0] if words and words[0] in _COMMANDS else None
    try:
        with naming_the_extra(f"driftbn {command}"):
            parsed = _parser(command).parse_args(words)
            return int(parsed.run(parsed))
    except UsageError as error:
        _note(f"error: {error}")
        return ExitCode.USAGE
    except ConfigError as error:
        for line in getattr(error, "lines", (str(error),)):
            _note(f"error: {line}")
        return ExitCode.CONFIG
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.BROKEN_PIPE
    except (DriftbnError, OSError, arrow_error()) as error:
        _note(f"error: {error}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        _note("interrupted")
        return ExitCode.INTERRUPTED


def run_program() -> NoReturn:
    """Run the command of the process and end it.

    The interpreter is not taken down: a thread of Arrow that still lets go of what it has read
    would find it gone, and abort a program that has done all it had to.
    """
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = ExitCode.BROKEN_PIPE
    sys.stderr.flush()
    logging.shutdown()
    os._exit(code)


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the command that is asked for knows its own arguments."""
    parser = argparse.ArgumentParser(
        prog="driftbn",
        description="Says when the relations between the fields of an event stream change.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"driftbn {driftbn.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, summary in _COMMANDS.items():
        if name == chosen == "version":
            _add_version(commands)
        elif name == chosen == "completion":
            completion = commands.add_parser(name)
            completion.add_argument("shell", nargs="?", choices=SHELLS, default=SHELLS[0])
            completion.set_defaults(run=_write_completion)
        elif name == chosen:
            module, _, add = _ADDED_BY.get(name, f"{name}.add_parser").partition(".")
            part_of_kind("driftbn_service.commands", module, add)(commands)
        else:
            commands.add_parser(name, help=summary)
    for subparser in commands.choices.values():
        subparser.epilog = _EXIT_CODES
        subparser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _add_version(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("version")
    parser.add_argument("--json", action="store_true", help="write JSON instead of text")
    parser.set_defaults(run=_write_versions)


def _write_versions(arguments: argparse.Namespace) -> int:
    versions = {"driftbn": driftbn.__version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _STANDS_ON}
    text = "".join(f"{name} {version}\n" for name, version in versions.items())
    sys.stdout.write(json.dumps(versions) + "\n" if arguments.json else text)
    return 0


def _write_completion(arguments: argparse.Namespace) -> int:
    script, case = _COMPLETION, "        '{path} '*) words='{words}' ;;"
    if arguments.shell == "fish":
        script, case = _FISH, "        case '{path} *'\n            string split ' ' -- '{words}'"
    cases = "\n".join(
        case.format(path=path, words=" ".join(words))
        for name in _COMMANDS
        for path, words in _words_of(_parsers(_parser(name))[name], name)
    )
    sys.stdout.write(script.format(cases=cases, commands=" ".join(_COMMANDS)))
    return 0


def _words_of(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    """Iterate over the words that may follow a command, those of its own commands first."""
    inner = _parsers(parser)
    for name, one in inner.items():
        yield from _words_of(one, f"{path} {name}")
    options = [word for action in parser._actions for word in action.option_strings]
    choices = [word for action in parser._actions for word in action.choices or ()]
    yield path, sorted({*options, *(str(word) for word in choices)})


def _parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    kind = argparse._SubParsersAction
    found = [action.choices for action in parser._actions if isinstance(action, kind)]
    return dict(found[0]) if found else {}


def _note(message: str) -> None:
    # What commands share takes a second to import, and --help needs none of it.
    importlib.import_module("driftbn_service.commands").note(message)


def _silence_stdout() -> None:
    """Keep the interpreter from writing to the broken pipe once more when it ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
