"""`--engine ray` on two nodes: one of them is killed with the cell that it runs, and no cell is lost."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from attacks.matrix_run import ATTACKED, DEFENDED, SEEDS, SMALL, WAITS
from holdfast.attacks import run_matrix
from waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds a worker's node in /proc")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.mark.slow
def test_a_killed_node_costs_no_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason='pip install "holdfast[cluster]"')
    from ray.cluster_utils import Cluster

    mark = tmp_path / "waits"
    monkeypatch.setenv(WAITS, str(mark))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers find the tests' own classes
    monkeypatch.setenv("RAY_worker_niceness", "0")
    store = {"object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    try:
        nodes = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        killed: list[int] = []

        def kill_the_node() -> None:
            wait_for(lambda: mark.exists() and mark.read_text())
            raylet = parent(int(mark.read_text()))
            owners = [node for node in nodes if raylet == node.all_processes["raylet"][0].process.pid]
            for node in owners:
                cluster.remove_node(node, allow_graceful=False)
                killed.append(raylet)

        killer = threading.Thread(target=kill_the_node)
        killer.start()
        table = run_matrix(ATTACKED, DEFENDED, SEEDS, tmp_path / "run", scale=SMALL, num_workers=2, engine="ray")
        killer.join()
    finally:
        cluster.shutdown()
    assert len(killed) == 1, "no node was killed"
    names = [(attack.name, defence.name, seed) for attack in ATTACKED for defence in DEFENDED for seed in SEEDS]
    assert [(cell.attack, cell.defence, cell.seed) for cell in table] == names
    assert [cell.reason for cell in table] == [""] * len(names)
