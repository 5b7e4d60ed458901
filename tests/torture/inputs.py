"""Files that are not what they should be, and names that attack the terminal."""
import os
import subprocess

from job import Job, Wrong, read

LIMIT_S = 20
NAMES = [b"\x1b[31mred\x1b]0;title\x07", b"new\nVerdict: all is well", b"\xff\xfe half \xc3", b"\xc2\x9b2J c1", b"<script>alert(1)</script>",
         "\u202egnp.exe".encode(), b"%s%n%x", b"'; rm -rf / #", b"a" * 200]


def corpus(bench):
    """Valid files of every kind, made once by the program itself."""
    folder = os.path.join(bench.root, "corpus")
    if os.path.isdir(folder):
        return folder
    os.makedirs(folder)
    bench.fresh(99999)
    job = bench.train(2, "profiling.enabled=true training.max_steps=8", out=os.path.join(folder, "run"))
    if job.wait():
        raise Wrong(f"the corpus: {job.output()[-300:]!r}")
    subprocess.run([bench.aorta, "hwq", "run", "tiny_kernel_stress", "--device", "cpu", "--iterations", "5", "--warmup", "1", "-q", "-o",
                    os.path.join(folder, "hwq.json")], check=True, capture_output=True)
    subprocess.run([bench.aorta, "trace", "run", "-o", os.path.join(folder, "rec"), "--", f"{bench.tests}/record/program", "layers", "20"],
                   env={**os.environ, **bench.recorded()}, check=True, capture_output=True)
    with open(os.path.join(folder, "tiny.yaml"), "wb") as file:
        file.write(read(os.path.join(bench.folder, "tiny.yaml")))
    return folder


def mutate(chance, data):
    """Bits, bytes, pieces cut out, doubled, exchanged, numbers made absurd."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8, 64])):
        if not data:
            break
        at, length = chance.randrange(len(data)), chance.choice([1, 2, 8, 100, 4000])
        kind = chance.randrange(7)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at:at + length] = b""
        elif kind == 2:
            data[at:at] = data[at:at + length]
        elif kind == 3:
            data[at:at + 1] = chance.choice([b"\0", b"\x1b[2J", b"\xff", b"{" * 50, b"[" * 3000, b'"', b"\\u0000", b"\n"])
        elif kind == 4:
            data[at:at + 1] = chance.choice([b"1e308", b"-1", b"9" * 40, b"nan", b"null", b"true", b"1e-320", b"18446744073709551616"])
        elif kind == 5:
            del data[at:]
        else:
            other = chance.randrange(len(data))
            data[at:at + length] = data[other:other + length]
    return bytes(data)


def commands(bench, folder):
    """What reads which file of the corpus."""
    trace = next(os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in sorted(names)
                 if "trace" in name and ".json" in name)
    copy = bench.out("corpus")
    spool = next(os.path.join("rec", name) for name in os.listdir(os.path.join(folder, "rec")) if name.endswith(".spool"))
    return [
        (spool, ["trace", "analyze", os.path.join(copy, "rec")]),
        (spool, ["trace", "analyze", "--recover", os.path.join(copy, "rec")]),
        ("run/rank_01_metrics.jsonl", ["report", "--log-dir", os.path.join(copy, "run"), "-o", bench.out("report")]),
        ("run/rank_00_metrics.jsonl", ["report", "--log-dir", os.path.join(copy, "run"), "-o", bench.out("report")]),
        ("run/rank_00_metrics.jsonl", ["whatif", os.path.join(copy, "run")]),
        (trace, ["trace", "analyze", os.path.join(copy, trace)]),
        (trace, ["trace", "analyze", os.path.join(copy, trace), "--json"]),
        ("hwq.json", ["hwq", "compare", "-b", os.path.join(copy, "hwq.json"), "-t", os.path.join(folder, "hwq.json")]),
        ("tiny.yaml", ["train", "--config", os.path.join(copy, "tiny.yaml"), "--override", f"training.output_dir={bench.out()}",
                       "training.max_steps=1", "training.epochs=1"]),
    ]


def run_reader(bench, words, name):
    job = Job(bench.folder, [bench.aorta, *words], LIMIT_S)
    code = job.wait()
    job.check_left()
    if code not in (0, 1, 2):
        raise Wrong(f"{name}: exit {code}: {job.output()[-300:]!r}")
    job.check_words(*(("aorta: ", "Verdict", "error", "regress") if code else ()))
    return code


def mutated_input(bench):
    folder = corpus(bench)
    name, words = bench.random.choice(commands(bench, folder))
    subprocess.run(["cp", "-r", folder, bench.out("corpus")], check=True)
    if tuple(words[:2]) not in bench.known_to_read and run_reader(bench, words, name):
        raise Wrong(f"{words}: not mutated, and not read")
    bench.known_to_read.add(tuple(words[:2]))
    path = os.path.join(bench.out("corpus"), name)
    with open(path, "wb") as file:
        file.write(mutate(bench.random, read(os.path.join(folder, name))))
    return "clear error" if run_reader(bench, words, name) else "read"


def hostile_name(bench):
    """Directories and files of such names, and labels in the files."""
    folder = corpus(bench)
    hostile = bench.random.choice(NAMES)
    directory = os.path.join(os.fsencode(bench.folder), hostile.replace(b"/", b"_"))
    subprocess.run([b"cp", b"-r", os.fsencode(os.path.join(folder, "run")), directory], check=True)
    path = os.path.join(directory, b"rank_00_metrics.jsonl")
    escaped = hostile.decode("utf-8", "replace").encode("unicode_escape").replace(b'"', b"").replace(b"\\x", b"\\u00").replace(b"\\U0", b"")
    data = read(path).replace(b'"encoder.layers.1"', b'"' + escaped + b'"')
    with open(path, "wb") as file:
        file.write(data)
    words = bench.random.choice([[b"report", b"--log-dir", directory, b"-o", os.fsencode(bench.out("report"))], [b"whatif", directory],
                                 [b"trace", b"analyze", directory], [b"train", b"--config", directory]])
    run_reader(bench, [os.fsdecode(word) for word in words], repr(hostile))
    return "nothing raw on the terminal"


FAULTS = [mutated_input, mutated_input, mutated_input, hostile_name]
