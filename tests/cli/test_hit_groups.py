import json
from pathlib import Path

import pytest

from rtviewer.cli.main import run

SCENE = Path(__file__).parents[2] / "scenes" / "hit_groups"


def test_the_ray_command_names_the_record(capsys):
    words = ["ray", str(SCENE), "--origin", "1.2,0,10", "--direction", "0,0,-1"]
    assert run(words) == 0
    assert 'record 2 "without any-hit": no any-hit shader: acts opaque [OPQ-5]' in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["result"]["hit_group"]["name"], answer["result"]["hit_group"]["record"]) == ("without any-hit", 2)


@pytest.mark.rule("HG-4", "TRAV-5")
@pytest.mark.parametrize(("contribution", "rule"), [("3", "TRAV-5"), ("6", "HG-4")])
@pytest.mark.parametrize(
    "words", [["trace", "--size", "64x36"], ["ray", "--origin", "1.2,0,10", "--direction", "0,0,-1"]]
)
def test_a_fault_is_the_users_mistake(contribution, rule, words, capsys):
    assert run([words[0], str(SCENE), *words[1:], "--ray-contribution", contribution]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rtviewer: TraceRay: ")
    assert rule in err
    assert "HitGroupIndex" in err
    assert err.count("\n") == 1
