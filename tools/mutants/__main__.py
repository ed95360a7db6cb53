"""``python -m tools.mutants``: makes mutants of the bench's queues, tries them, and writes docs/results/mutants.md; see ``--help``."""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stallbench.base.duration import parse_duration_s
from tests.defective_queues.trial import find_subjects
from tools.mutants import results
from tools.mutants.equivalence import read_equivalent
from tools.mutants.page import write_page
from tools.mutants.sources import QUEUES, Mutant, in_drawn_order, make_mutants
from tools.mutants.trials import digest_trials, start_trial_server


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, meaning in {
        "list": "list the mutants, in the order in which they are tried",
        "show": "print what is changed in a mutant, and its results",
        "try": "try mutants with the promises of the operations",
        "sound": "try the queues as they are in the same way: every broken promise is a false alarm",
        "seeded": "try the queues of tests/defective_queues in the same way",
        "application": "try mutants of an application with its own worker, at every crash point",
        "crash": "try those that survived with kills and pauses at every crash point",
        "page": "write docs/results/mutants.md",
    }.items():
        command = commands.add_parser(name, help=meaning, description=meaning)
        command.add_argument("--results", type=Path, default=results.RESULTS, metavar="FILE", help="default: %(default)s")
        if name == "show":
            command.add_argument("mutant", metavar="MUTANT", help="its id, or a part of it")
        elif name != "page":
            command.add_argument(
                "--queue", action="append", choices=list(QUEUES), help="only this queue; may be given several times"
            )
            command.add_argument("--seed", type=int, default=1, help="decides the order; default: %(default)s")
            command.add_argument("--sample", type=int, metavar="N", help="only the first N in this order; default: all")
            command.add_argument(
                "--within", default="60m", metavar="TIME", help="begin nothing after this time; default: %(default)s"
            )
            command.add_argument("--rounds", type=int, default=1, help="of `sound` and `seeded`: how often; default: %(default)s")
            command.add_argument("--quick", action="store_true", help="of `try`: without promises that use threads or processes")
            command.add_argument("--again", action="store_true", help="also those that have a result")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    if arguments.command == "page":
        write_page(results.read(arguments.results))
        return
    mutants = [mutant for kind in getattr(arguments, "queue", None) or QUEUES for mutant in make_mutants(QUEUES[kind])]
    if arguments.command == "show":
        _show(mutants, arguments.mutant, arguments.results)
        return
    ordered = in_drawn_order(mutants, arguments.seed)[: arguments.sample]
    until_s = time.monotonic() + parse_duration_s(arguments.within)
    if arguments.command == "list":
        for mutant in ordered:
            print(f"{mutant.id}\n    {mutant.before}\n    {mutant.after}")
    elif arguments.command == "try":
        _try(ordered, arguments.results, until_s, again=arguments.again, quick=arguments.quick)
    elif arguments.command == "sound":
        _try_sound(arguments.queue or list(QUEUES), arguments.results, until_s, rounds=arguments.rounds)
    elif arguments.command == "seeded":
        _try_seeded(arguments.results, until_s, rounds=arguments.rounds)
    elif arguments.command == "application":
        from tools.mutants.application import try_application

        try_application(arguments.results, until_s, seed=arguments.seed)
    else:
        from tools.mutants.crash_trials import choose_survivors, try_crash_points

        survivors = choose_survivors(ordered, results.read(arguments.results), read_equivalent())
        try_crash_points(survivors, arguments.results, until_s, seed=arguments.seed)


def _end(number: int, frame: object) -> None:
    """Stop the server and remove the temporary folders before the process ends."""
    sys.exit(128 + number)


def _try(mutants: Sequence[Mutant], path: Path, until_s: float, *, again: bool, quick: bool) -> None:
    """Try those that have no result yet, or have survived other trials than those of today."""
    known = results.latest(results.read(path), "operations")
    whole = digest_trials()
    trials = f"{whole}, quick" if quick else whole
    with start_trial_server() as server:
        for number, mutant in enumerate(mutants, 1):
            record = known.get(mutant.id)
            is_current = record is not None and record["digest"] == mutant.digest
            if record is not None and is_current and record["result"] in ("survived", "unreached"):
                is_current = record["trials"] in (trials, whole)
            if is_current and not again:
                continue
            if time.monotonic() >= until_s:
                break
            began_s = time.monotonic()
            judgement = server.judge(mutant, quick=quick)
            record = {
                "kind": "operations",
                "mutant": mutant.id,
                "digest": mutant.digest,
                "trials": trials,
                "result": judgement.result,
                "by": judgement.by,
                "reason": judgement.reason[:300],
                "timeout": judgement.is_timeout,
                "options": dict(judgement.options),
                "seconds": round(time.monotonic() - began_s, 1),
            }
            results.append(path, record)
            print(f"{number}/{len(mutants)} {judgement.result} {record['seconds']} s {mutant.id} {judgement.by}", flush=True)


def _try_sound(kinds: Sequence[str], path: Path, until_s: float, *, rounds: int) -> None:
    with start_trial_server() as server:
        for _ in range(rounds):
            for kind in kinds:
                for options in QUEUES[kind].options:
                    if time.monotonic() >= until_s:
                        return
                    broken = server.try_sound(QUEUES[kind], options)
                    results.append(
                        path,
                        {"kind": "sound", "queue": kind, "options": dict(options), "trials": digest_trials(), "broken": broken},
                    )
                    print(f"{kind} {dict(options)}: {broken or 'keeps every promise'}", flush=True)


def _try_seeded(path: Path, until_s: float, *, rounds: int) -> None:
    """Try each until there are so many rounds of it with the trials of today."""
    trials = digest_trials()
    subjects = [each for each in find_subjects() if each.caught_by is not None and "postgres" in each.queue.engines]
    tried = Counter(each["defect"] for each in results.read(path) if each["kind"] == "seeded" and each["trials"] == trials)
    with start_trial_server() as server:
        for number in range(1, rounds + 1):
            for subject in subjects:
                if tried[subject.name] >= number:
                    continue
                if time.monotonic() >= until_s:
                    return
                by, reason = server.try_seeded(subject.kind) or ("", "")
                record = {"kind": "seeded", "defect": subject.name, "trials": trials, "by": by, "reason": reason[:300]}
                results.append(path, record)
                print(f"{number}/{rounds} {subject.name}: {by or 'not found'}", flush=True)


def _show(mutants: Sequence[Mutant], wanted: str, path: Path) -> None:
    found = [mutant for mutant in mutants if mutant.id == wanted] or [mutant for mutant in mutants if wanted in mutant.id]
    if not found:
        sys.exit(f"there is no mutant {wanted}; `list` lists all")
    records = results.read(path)
    for mutant in found:
        text = QUEUES[mutant.queue].read()[mutant.file]
        difference = difflib.unified_diff(
            text.splitlines(), mutant.texts[mutant.file].splitlines(), mutant.file, mutant.id, lineterm="", n=6
        )
        print("\n".join(difference))
        for record in records:
            if record.get("mutant") == mutant.id:
                print(f"{record['kind']}: {record['result']} {record['by']}: {record['reason']}")


if __name__ == "__main__":
    main()
