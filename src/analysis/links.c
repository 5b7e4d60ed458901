/* Bytes a nanosecond in each direction that a GPU's links to the others of its host have together, by its name: NVLink
 * (NVIDIA's data sheets; PCIe cards of the same name have none), Infinity Fabric (AMD's data sheets of MI300X, MI325X,
 * MI350X and MI355X: seven links). */
#include "analysis/links.h"

#include <string.h>

static const struct {
    const char *name;
    double gbps;
} links[] = {{"H100", 450},   {"H200", 450},   {"GH200", 450},  {"A100", 300},   {"B200", 900},
             {"GB200", 900},  {"B300", 900},   {"MI300X", 448}, {"MI308X", 448}, {"MI325X", 448},
             {"MI350X", 538}, {"MI355X", 538}, {"H800", 200},   {"H20", 450},    {"V100", 150}};

double aorta_link_gbps(const struct aorta_trace *trace, int32_t device) {
    const struct aorta_trace_device *found = aorta_trace_device_of(trace, device);
    const char *name = found ? aorta_trace_text(trace, found->name) : "";
    for (size_t i = 0; i < sizeof links / sizeof *links && !strcasestr(name, "PCIe"); i++)
        if (strcasestr(name, links[i].name)) return links[i].gbps;
    return 0;
}

double aorta_trace_link_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                           const struct aorta_trace_collective_row *row) {
    int32_t size = row->group == AORTA_TRACE_NONE ? -1 : analysis->groups[row->group].size;
    return size > 1 && size <= AORTA_LINK_RANKS ? aorta_link_gbps(rank->trace, rank->device) : 0;
}
