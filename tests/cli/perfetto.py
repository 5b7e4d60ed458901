"""perfetto.py AORTA SOURCE: aorta trace merge --perfetto, with this script as the browser that follows the link."""
import http.client
import re
import socket
import subprocess
import sys
import tempfile

aorta, source = sys.argv[1:3]
traces = [f"{source}/tests/trace/data/fsdp2_rank{rank}.json" for rank in range(2)]


def start(*options):
    return subprocess.Popen([aorta, "trace", "merge", *traces, *options], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def ask(method, target):
    connection = http.client.HTTPConnection("127.0.0.1", 9001, timeout=20)
    connection.request(method, target, headers={"Origin": "https://ui.perfetto.dev"})
    response = connection.getresponse()
    assert response.getheader("Access-Control-Allow-Origin") == "https://ui.perfetto.dev"
    return response.status, response.read()


with socket.socket() as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", 9001))
    except OSError as taken:
        print(f"skipped: 127.0.0.1:9001: {taken}")
        sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    file = f"{folder}/two ranks.json"
    process = start("-o", file, "--perfetto")
    link = process.stderr.readline()
    target = re.fullmatch(r"open  https://ui\.perfetto\.dev/#!/\?url=http://127\.0\.0\.1:9001(/two%20ranks\.json)\n", link)
    assert target, link
    second = start("-o", f"{folder}/other.json", "--perfetto")
    assert "127.0.0.1:9001: Address already in use" in second.communicate(timeout=60)[1] and second.returncode == 1
    assert ask("GET", "/")[0] == 404 and ask("GET", "/../etc/passwd")[0] == 404 and ask("GET", target[1] + "x")[0] == 404
    with socket.create_connection(("127.0.0.1", 9001)) as cut:  # one that goes before it has asked
        cut.send(b"GET ")
    assert ask("OPTIONS", target[1]) == (204, b"")
    assert process.poll() is None
    with open(file, "rb") as whole:
        assert ask("GET", target[1]) == (200, whole.read())
    assert process.wait(timeout=20) == 0
done = start("-o", "-", "--perfetto")
assert "--perfetto needs a file" in done.communicate(timeout=60)[1] and done.returncode == 2
print("ok")
