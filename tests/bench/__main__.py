"""``./run bench``: rtviewer beside its peers, in one process and in interleaved rounds."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

import click

from rtviewer.errors import RtviewerError
from rtviewer.session.jobs import default_threads
from tests.bench.peers import find_peers
from tests.bench.report import as_json, heading, machine, scene_tables, target_table
from tests.bench.rows import Plan, measure_scene
from tests.bench.scenes import FULL, QUICK, SCENES, TINY, Size
from tests.bench.targets import judge

SIZES = {size.name: size for size in (FULL, QUICK, TINY)}
ROUNDS = {"full": 5, "quick": 3, "tiny": 1}


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scenes", nargs=-1, type=click.Choice(list(SCENES)), metavar="[SCENE]...")
@click.option("--quick", is_flag=True, help="Smaller meshes and pictures, under a minute for all scenes.")
@click.option(
    "--size", "size_name", type=click.Choice(list(SIZES)), help="How much to measure; --quick is one of them."
)
@click.option("--rounds", type=click.IntRange(1), help="Rounds of every measurement (5; 3 with --quick).")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
@click.option("--tinybvh", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of tiny_bvh.h.")
def command(
    scenes: tuple[str, ...],
    quick: bool,
    size_name: str | None,
    rounds: int | None,
    json_file: Path | None,
    tinybvh: Path | None,
) -> None:
    """Measure builds, refits and rays beside Embree (and tinybvh) and compare with the targets.

    SCENE: torus, hall, hairball, sphere, soup, instances; all without one. One thread is measured in CPU seconds, all
    threads by the wall clock. What cannot be measured here is said and left out.
    """
    if quick and size_name not in (None, QUICK.name):
        raise click.UsageError("--quick is --size quick: give only one")
    size: Size = SIZES[size_name or (QUICK.name if quick else FULL.name)]
    brief = size is not FULL
    plan = Plan(rounds or ROUNDS[size.name], size.pixels, default_threads(), brief)
    started = time.perf_counter()
    peers = find_peers(tinybvh)
    facts = machine(size, plan, peers)
    click.echo(heading(facts) + "\n")
    results = []
    for name in dict.fromkeys(scenes or SCENES):
        _tell(name, "mesh")
        result = measure_scene(SCENES[name](size), peers, plan, partial(_tell, name))
        click.echo(scene_tables(result, plan.threads, brief=brief))
        results.append(result)
    judgements = judge(results)
    click.echo("## Targets\n\n" + target_table(judgements) + "\n")
    click.echo(f"{time.perf_counter() - started:.0f} s in all")
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(facts, results, judgements), indent=1) + "\n", "utf-8")
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
