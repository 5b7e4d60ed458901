#!/usr/bin/python3
"""Writes one small recording in all formats of rocprofv3, for tests/trace/test_rocprof.c.

    make_rocprof.py rocprofv3_908_results.json.gz tests/trace/data

The dispatches of the first GPU are cut from a file that rocprofv3 wrote. What that file has none of is made up by this
script, in the shape that rocprofiler-sdk's sources give it (src/trace/rocprof.h names them): a second GPU, copies, calls
of HIP and RCCL, markers. The CSV files and databases are written by this script, not by rocprofv3.
"""
import csv
import gzip
import json
import os
import sqlite3
import sys

PID, NODE, GUID = 908, 1, "00000ac2-6f4e-7a11-8d2b-3c1d5e7f9a01"
SUFFIX = "_" + GUID.replace("-", "_")
KINDS = {"HIP": "HIP_RUNTIME_API", "RCCL": "RCCL_API", "MARKER": "MARKER_CORE_RANGE_API", "COPY": "MEMORY_COPY"}


def cut(document):
    """Forty dispatches around a collective, renumbered, a quarter of them moved to the second GPU."""
    tool = document["rocprofiler-sdk-tool"][0]
    names = {s["kernel_id"]: s for s in tool["kernel_symbols"]}
    dispatches = tool["buffer_records"]["kernel_dispatch"]
    first = next(i for i, d in enumerate(dispatches)
                 if "nccl" in names[d["dispatch_info"]["kernel_id"]]["kernel_name"] and i > 2000)
    gpus = [a for a in tool["agents"] if a["type"] == 2]
    chosen = dispatches[first - 20:first + 20]
    for number, record in enumerate(chosen):
        record["correlation_id"] = {"internal": 3 * number + 2, "external": 0}
        if number % 4 == 3:
            record["dispatch_info"]["agent_id"] = dict(gpus[1]["id"])
    chosen[10]["correlation_id"] = dict(chosen[9]["correlation_id"])  # a graph of two kernels
    used = {d["dispatch_info"]["kernel_id"] for d in chosen}
    symbols = [s for k, s in sorted(names.items()) if k in used]
    fields = ("size", "id", "type", "node_id", "logical_node_id", "name", "product_name", "cu_count")
    agents = [{f: a[f] for f in fields} for a in tool["agents"][:2] + gpus[:2]]
    return tool, chosen, symbols, agents


def invent(tool, chosen, agents):
    """Calls behind the dispatches, two copies, a wait, a collective's call, a step and a range."""
    strings = [dict(kind) for kind in tool["strings"]["buffer_records"]]
    place = {kind["kind"]: i for i, kind in enumerate(strings)}

    def record(kind, operation, correlation, start, end, thread=PID, **more):
        number = place[kind]
        return {"size": 48, "kind": number, "operation": strings[number]["operations"].index(operation),
                "correlation_id": {"internal": correlation, "external": 0}, "start_timestamp": start,
                "end_timestamp": end, "thread_id": thread, **more}

    calls, rccl, copies, markers = [], [], [], []
    for number, d in enumerate(chosen):
        correlation, start = 3 * number + 2, d["start_timestamp"] - 9000
        if number == 10:
            continue
        name = "hipGraphLaunch" if number == 9 else "hipLaunchKernel"
        calls.append(record(KINDS["HIP"], "hipGetDevice", correlation - 1, start - 300, start - 200, d["thread_id"]))
        calls.append(record(KINDS["HIP"], name, correlation, start, start + 2500, d["thread_id"]))
        if number == 20:
            rccl.append(record(KINDS["RCCL"], "ncclAllReduce", correlation + 1, start - 1000, start + 3000,
                               d["thread_id"]))
    host, gpu = agents[0]["id"], agents[2]["id"]
    begin, end = chosen[0]["start_timestamp"], chosen[-1]["end_timestamp"]
    stream = {"stream_id": {"handle": 3}}
    for i, (name, source, target, size) in enumerate((("HOST_TO_DEVICE", host, gpu, 4096),
                                                      ("DEVICE_TO_HOST", gpu, host, 65536),
                                                      ("DEVICE_TO_DEVICE", gpu, gpu, 512))):
        copies.append(record(KINDS["COPY"], "MEMORY_COPY_" + name, 200 + i, begin + 40000 * i, begin + 40000 * i + 7000,
                             src_agent_id=source, dst_agent_id=target, bytes=size, **stream))
        calls.append(record(KINDS["HIP"], "hipMemcpyAsync", 200 + i, begin + 40000 * i - 5000, begin + 40000 * i - 100))
    calls.append(record(KINDS["HIP"], "hipDeviceSynchronize", 210, end - 50000, end + 4000))
    markers.append(record(KINDS["MARKER"], "roctxThreadRangeA", 220, begin - 20000, end + 9000))
    markers.append(record(KINDS["MARKER"], "roctxThreadRangeA", 221, begin, begin + 30000))
    messages = {220: "ProfilerStep#7", 221: 'forward "layer 1" part 2'}
    return strings, calls, rccl, copies, markers, messages


def write_json(path, r):
    document = {"rocprofiler-sdk-tool": [{
        "metadata": {"pid": PID, "init_time": 1, "fini_time": 2, "command": ["python3", "train.py"]},
        "agents": r["agents"],
        "counters": [],
        "strings": {"callback_records": [], "buffer_records": r["strings"],
                    "marker_api": [{"key": k, "value": v} for k, v in r["messages"].items()]},
        "code_objects": [], "kernel_symbols": r["symbols"], "host_functions": [], "summary": [],
        "callback_records": {"counter_collection": []},
        "buffer_records": {"kernel_dispatch": r["chosen"], "hip_api": r["calls"], "hsa_api": [],
                           "marker_api": r["markers"], "rccl_api": r["rccl"], "memory_copy": r["copies"],
                           "memory_allocation": [], "scratch_memory": []}}]}
    with open(path, "w") as file:
        json.dump(document, file, indent=1)


def write_csv(path, header, rows):
    """As rocprofv3 writes: texts in quotes, quotes within them as they are."""
    with open(path, "w") as file:
        file.write(",".join('"%s"' % h for h in header) + "\n")
        for row in rows:
            file.write(",".join('"%s"' % v if isinstance(v, str) else str(v) for v in row) + "\n")


def write_csvs(prefix, r):
    index = {a["id"]["handle"]: "Agent %d" % a["logical_node_id"] for a in r["agents"]}
    names = {s["kernel_id"]: s["formatted_kernel_name"] for s in r["symbols"]}
    operation = lambda c: r["strings"][c["kind"]]["operations"][c["operation"]]
    write_csv(prefix + "_agent_info.csv", ["Node_Id", "Logical_Node_Id", "Agent_Type", "Cu_Count", "Name", "Product_Name"],
              [(a["node_id"], a["logical_node_id"], "GPU" if a["type"] == 2 else "CPU", a["cu_count"], a["name"],
                a["product_name"]) for a in r["agents"]])
    axes = [(f + "_Size_" + x.upper(), f.lower() + "_size", x) for f in ("Workgroup", "Grid") for x in "xyz"]
    write_csv(prefix + "_kernel_trace.csv",
              ["Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
               "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size"] + [a[0] for a in axes],
              [("KERNEL_DISPATCH", index[d["dispatch_info"]["agent_id"]["handle"]],
                d["dispatch_info"]["queue_id"]["handle"], d["stream_id"]["handle"], d["thread_id"],
                d["dispatch_info"]["dispatch_id"], d["dispatch_info"]["kernel_id"],
                names[d["dispatch_info"]["kernel_id"]], d["correlation_id"]["internal"], d["start_timestamp"],
                d["end_timestamp"], 0) + tuple(d["dispatch_info"][f][x] for _, f, x in axes) for d in r["chosen"]])
    write_csv(prefix + "_memory_copy_trace.csv",
              ["Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id",
               "Start_Timestamp", "End_Timestamp"],
              [("MEMORY_COPY", operation(c), c["stream_id"]["handle"], index[c["src_agent_id"]["handle"]],
                index[c["dst_agent_id"]["handle"]], c["correlation_id"]["internal"], c["start_timestamp"],
                c["end_timestamp"]) for c in r["copies"]])
    for part, calls in (("hip_api", r["calls"]), ("rccl_api", r["rccl"]), ("marker_api", r["markers"])):
        write_csv(prefix + "_" + part + "_trace.csv",
                  ["Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"],
                  [(r["strings"][c["kind"]]["kind"],
                    r["messages"].get(c["correlation_id"]["internal"], operation(c)), PID, c["thread_id"],
                    c["correlation_id"]["internal"], c["start_timestamp"], c["end_timestamp"]) for c in calls])


def write_rocpd(path, r, schema):
    """The tables and columns of rocpd_tables.sql that matter here. Schema 4 moves agent, queue and stream to tracks."""
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA page_size = 1024")
    tracked = schema >= 4
    place = "track_id INTEGER" if tracked else "nid INTEGER, pid INTEGER, tid INTEGER"
    lane = "" if tracked else ", agent_id INTEGER, queue_id INTEGER, stream_id INTEGER"
    copy_lane = "" if tracked else ", queue_id INTEGER, stream_id INTEGER"
    text_table = "rocpd_info_category" if tracked else None
    for table, columns in (
            ("rocpd_metadata", "id INTEGER PRIMARY KEY, tag TEXT, value TEXT"),
            ("rocpd_string", "id INTEGER PRIMARY KEY, guid TEXT, string TEXT NOT NULL UNIQUE"),
            ("rocpd_info_category", "id INTEGER PRIMARY KEY, guid TEXT, name TEXT NOT NULL"),
            ("rocpd_info_process", "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, environment JSONB"),
            ("rocpd_info_agent", "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, type TEXT, "
             "absolute_index INTEGER, name TEXT, product_name TEXT, extdata JSONB"),
            ("rocpd_info_kernel_symbol", "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT"),
            ("rocpd_track", "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, "
             "agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, name_id INTEGER"),
            ("rocpd_event", "id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, "
             "correlation_id INTEGER, extdata JSONB DEFAULT '{}'"),
            ("rocpd_region", "id INTEGER PRIMARY KEY, guid TEXT, %s, start BIGINT, end BIGINT, name_id INTEGER, "
             "event_id INTEGER" % place),
            ("rocpd_kernel_dispatch", "id INTEGER PRIMARY KEY, guid TEXT, %s%s, kernel_id INTEGER, dispatch_id INTEGER, "
             "start BIGINT, end BIGINT, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, "
             "grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER" % (place, lane)),
            ("rocpd_memory_copy", "id INTEGER PRIMARY KEY, guid TEXT, %s%s, start BIGINT, end BIGINT, name_id INTEGER, "
             "dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, event_id INTEGER" % (place, copy_lane))):
        if table in ("rocpd_info_category", "rocpd_track") and not tracked:
            continue
        db.execute('CREATE TABLE "%s%s" (%s)' % (table, SUFFIX, columns))
        db.execute('CREATE VIEW "%s" AS SELECT * FROM "%s%s"' % (table, table, SUFFIX))

    def insert(table, **values):
        columns = ", ".join('"%s"' % c for c in values)
        return db.execute('INSERT INTO "%s%s" (%s) VALUES (%s)' % (table, SUFFIX, columns, ", ".join("?" * len(values))),
                          list(values.values())).lastrowid

    known = {}

    def text(table, column, value):
        if (table, value) not in known:
            known[table, value] = insert(table, **{"guid": GUID, column: value})
        return known[table, value]

    def string(value):
        return text("rocpd_string", "string", value)

    def event(kind, correlation, extdata="{}"):
        category = text(text_table, "name", kind) if text_table else string(kind)
        return insert("rocpd_event", guid=GUID, category_id=category, stack_id=correlation, correlation_id=0,
                      extdata=extdata)

    def where(thread, **lanes):
        if not tracked:
            return {"nid": NODE, "pid": PID, "tid": thread, **lanes}
        key = (thread, tuple(sorted(lanes.items())))
        if key not in known:
            known[key] = insert("rocpd_track", guid=GUID, nid=NODE, pid=PID, tid=thread, **lanes)
        return {"track_id": known[key]}

    node = {a["id"]["handle"]: a["node_id"] for a in r["agents"]}
    insert("rocpd_metadata", tag="schema_version", value=str(schema))
    insert("rocpd_info_process", id=PID, guid=GUID, nid=NODE, pid=PID,
           environment=json.dumps({"RANK": "3", "WORLD_SIZE": "8", "HOME": "/root"}))
    for a in r["agents"]:
        insert("rocpd_info_agent", id=a["node_id"], guid=GUID, nid=NODE, pid=PID, absolute_index=a["node_id"],
               type="GPU" if a["type"] == 2 else "CPU", name=a["name"], product_name=a["product_name"],
               extdata=json.dumps({"cu_count": a["cu_count"]}))
    for s in r["symbols"]:
        insert("rocpd_info_kernel_symbol", id=s["kernel_id"], guid=GUID, kernel_name=s["kernel_name"],
               display_name=s["formatted_kernel_name"])
    for c in r["calls"] + r["rccl"] + r["markers"]:
        kind, correlation = r["strings"][c["kind"]], c["correlation_id"]["internal"]
        message = r["messages"].get(correlation)
        insert("rocpd_region", guid=GUID, start=c["start_timestamp"], end=c["end_timestamp"],
               name_id=string(kind["operations"][c["operation"]]), **where(c["thread_id"]),
               event_id=event(kind["kind"], correlation, json.dumps({"message": message}) if message else "{}"))
    for d in r["chosen"]:
        i = d["dispatch_info"]
        sizes = {"%s_size_%s" % (f, x): i[f + "_size"][x] for f in ("workgroup", "grid") for x in "xyz"}
        insert("rocpd_kernel_dispatch", guid=GUID, kernel_id=i["kernel_id"], dispatch_id=i["dispatch_id"],
               start=d["start_timestamp"], end=d["end_timestamp"], **sizes,
               **where(d["thread_id"], agent_id=node[i["agent_id"]["handle"]], queue_id=i["queue_id"]["handle"],
                       stream_id=d["stream_id"]["handle"]),
               event_id=event("KERNEL_DISPATCH", d["correlation_id"]["internal"]))
    for c in r["copies"]:
        insert("rocpd_memory_copy", guid=GUID, start=c["start_timestamp"], end=c["end_timestamp"],
               name_id=string(r["strings"][c["kind"]]["operations"][c["operation"]]),
               dst_agent_id=node[c["dst_agent_id"]["handle"]], src_agent_id=node[c["src_agent_id"]["handle"]],
               size=c["bytes"], **where(c["thread_id"], stream_id=c["stream_id"]["handle"]),
               event_id=event("MEMORY_COPY", c["correlation_id"]["internal"]))
    db.commit()
    db.close()


def main():
    source, folder = sys.argv[1:]
    with gzip.open(source) as file:
        tool, chosen, symbols, agents = cut(json.load(file))
    strings, calls, rccl, copies, markers, messages = invent(tool, chosen, agents)
    # Names of calls that do not occur would make up most of the file.
    used = {(c["kind"], c["operation"]) for c in calls + rccl + copies + markers}
    for kind, entry in enumerate(strings):
        entry["operations"] = [o if (kind, i) in used else "-" for i, o in enumerate(entry["operations"])]
        last = max((i for k, i in used if k == kind), default=-1)
        entry["operations"] = entry["operations"][:last + 1]
    r = {"chosen": chosen, "symbols": symbols, "agents": agents, "strings": strings, "calls": calls, "rccl": rccl,
         "copies": copies, "markers": markers, "messages": messages}
    write_json(os.path.join(folder, "rocprof_results.json"), r)
    write_csvs(os.path.join(folder, "rocprof"), r)
    write_rocpd(os.path.join(folder, "rocprof_3.db"), r, 3)
    write_rocpd(os.path.join(folder, "rocprof_4.db"), r, 4)


if __name__ == "__main__":
    main()
