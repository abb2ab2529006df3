"""A cluster of two, and a client that has to know where the keys are: RQ.MLEASE's are numbered,
so it asks COMMAND GETKEYS."""

import json
import subprocess
import sys

import packages
from server import Server, wait_until

SCRIPT = """
import json, sys
from redis.cluster import RedisCluster
client = RedisCluster(port=int(sys.argv[1]), host="127.0.0.1", protocol=int(sys.argv[2]))
seen = []
for tag in ("{a}", "{b}", "{c}", "{d}"):  # on both nodes
    client.execute_command("RQ.PUSH", tag + "2", tag)
    key, [[id, token, *_]] = client.execute_command("RQ.MLEASE", 2, tag + "1", tag + "2", "worker")
    [code] = client.execute_command("RQ.ACK", key, id, token)
    node = client.get_node_from_key(key.decode()).port
    seen.append([key.decode(), code, node])
print(json.dumps(seen))
"""


def test(report, program, folder):
    """Leases from several queues, on both nodes, by redis-py."""
    env = packages.python()
    nodes = []
    try:
        for number, slots in enumerate([(0, 8191), (8192, 16383)]):
            nodes.append(Server(program, folder / str(number), "cluster-enabled yes", "cluster-node-timeout 60000"))
            nodes[-1].control = nodes[-1].connect()
            nodes[-1].control.ok("CLUSTER", "ADDSLOTSRANGE", *slots)
        first, second = nodes
        first.control.ok("CLUSTER", "MEET", "127.0.0.1", second.port)
        wait_until("the cluster", lambda: all(
            b"cluster_state:ok" in node.control.ok("CLUSTER", "INFO")
            and b"cluster_known_nodes:2" in node.control.ok("CLUSTER", "INFO")
            and b"cluster_slots_ok:16384" in node.control.ok("CLUSTER", "INFO") for node in nodes))
        for protocol in ("2", "3"):
            done = subprocess.run([sys.executable, "-B", "-c", SCRIPT, str(first.port), protocol], env=env,
                                  capture_output=True, text=True)
            if done.returncode != 0:
                raise ChildProcessError(done.stderr[-1000:])
            seen = json.loads(done.stdout)
            if [[key, code] for key, code, _ in seen] != [["{%s}2" % tag, 1] for tag in "abcd"]:
                raise ValueError(f"RESP{protocol}: {seen}")
            if {node for _, _, node in seen} != {first.port, second.port}:
                raise ValueError(f"the keys are not on both nodes: {seen}")
        report.count("redis-py in a cluster")
    finally:
        for node in nodes:
            node.kill()
