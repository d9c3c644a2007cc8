"""``./run bench``: rtviewer beside its peers, in one process and in interleaved rounds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from rtviewer.errors import RtviewerError
from rtviewer.session.jobs import default_threads
from tests.bench.cracks import measure_cracks
from tests.bench.debugging import measure_log, measure_recorder
from tests.bench.facts import Fact
from tests.bench.markdown import section_of
from tests.bench.memory import measure_memory
from tests.bench.peers import Peers, find_peers
from tests.bench.report import as_json, fact_table, heading, machine, scene_tables, target_table
from tests.bench.rows import Plan, measure_scene
from tests.bench.scenes import FULL, MESHES, QUICK, SCENES, SIZES, Size
from tests.bench.start import measure_start
from tests.bench.targets import judge, judge_facts

ROUNDS = {"full": 5, "quick": 3, "tiny": 1}

WHOLE: dict[str, Callable[[Size, Plan, Peers], list[Fact]]] = {
    "start": lambda size, plan, peers: measure_start(plan, cold=True),
    "load": lambda size, plan, peers: measure_start(plan, cold=False),
    "memory": lambda size, plan, peers: measure_memory(size, list(MESHES)),
    "cracks": lambda size, plan, peers: measure_cracks(size, peers),
    "log": lambda size, plan, peers: measure_log(size),
    "recorder": lambda size, plan, peers: measure_recorder(size, plan),
}
"""What is measured of the whole program."""
IN_FULL = ("start", "memory", "cracks", "log", "recorder")
IN_BRIEF = ("load", "memory", "cracks", "log")
"""What of WHOLE runs when nothing is named: a brief run does not wait for compilers."""


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice([*SCENES, *WHOLE]), metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Smaller meshes and pictures, under a minute for all scenes.")
@click.option(
    "--size", "size_name", type=click.Choice(list(SIZES)), help="How much to measure; --quick is one of them."
)
@click.option("--rounds", type=click.IntRange(1), help="Rounds of every measurement (5; 3 with --quick).")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
@click.option(
    "--markdown", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing: print the README's section from a file that --json wrote.",
)  # fmt: skip
@click.option("--tinybvh", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of tiny_bvh.h.")
def command(
    names: tuple[str, ...],
    quick: bool,
    size_name: str | None,
    rounds: int | None,
    json_file: Path | None,
    markdown: Path | None,
    tinybvh: Path | None,
) -> None:
    """Measure builds, refits and rays beside Embree (and tinybvh) and compare with the targets.

    NAME: a scene (torus, hall, hairball, sphere, soup, instances, foliage, spheres) or a number of the whole program:
    start (compile all kernels, load them), load (load alone), memory (peak of builds), cracks (rays at edges), log
    (picked pixel to ray log), recorder (its cost when off). All without one. One thread is measured in CPU seconds,
    all threads by the wall clock. What cannot be measured here is said and left out.
    """
    if markdown is not None:
        click.echo(section_of(markdown), nl=False)
        return
    if quick and size_name not in (None, QUICK.name):
        raise click.UsageError("--quick is --size quick: give only one")
    size: Size = SIZES[size_name or (QUICK.name if quick else FULL.name)]
    brief = size is not FULL
    plan = Plan(rounds or ROUNDS[size.name], size.pixels, default_threads(), brief)
    started = time.perf_counter()
    peers = find_peers(tinybvh)
    about = machine(size, plan, peers)
    click.echo(heading(about) + "\n")
    chosen = dict.fromkeys(names or (*SCENES, *(IN_BRIEF if brief else IN_FULL)))
    results = []
    for name in (name for name in chosen if name in SCENES):
        _tell(name, "mesh")
        result = measure_scene(SCENES[name](size), peers, plan, partial(_tell, name))
        click.echo(scene_tables(result, plan.threads, brief=brief))
        results.append(result)
    facts: list[Fact] = []
    for name in (name for name in chosen if name in WHOLE):
        _tell(name, "")
        facts += WHOLE[name](size, plan, peers)
    if facts:
        click.echo("## Whole program\n\n" + fact_table(facts) + "\n")
    judgements = [*judge(results), *judge_facts(facts)]
    shown = [item for item in judgements if item.value is not None] if names else judgements
    if shown:
        click.echo("## Targets\n\n" + target_table(shown) + "\n")
    click.echo(f"{time.perf_counter() - started:.0f} s in all")
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(about, results, facts, judgements), indent=1) + "\n", "utf-8")
        click.echo(f"wrote {json_file}")


def _tell(scene: str, what: str) -> None:
    """Progress, where a person watches."""
    if sys.stderr.isatty():
        click.echo(f"{scene}: {what}", err=True)


def main() -> int:
    """Exit code 2 and one line for a user's mistake, as the product's own commands do."""
    try:
        command.main(prog_name="./run bench", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except RtviewerError as error:
        click.echo(f"./run bench: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
