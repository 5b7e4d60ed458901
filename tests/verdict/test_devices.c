/* Names as CUDA, HIP, Kineto and rocprofv3 give them. */
#include "check.h"
#include "verdict/devices.h"

#include <math.h>

static struct aorta_peaks find(const char *name, int64_t memory, int units, int major, int minor) {
    const struct aorta_device_facts facts = {name, memory, units, major, minor};
    struct aorta_peaks peaks;
    aorta_peaks_find(&facts, &peaks);
    return peaks;
}

static void real_names_are_found(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t memory;
        int units, major, minor;
        const char *device;
        double bf16, gbytes_per_s;
    } rows[] = {
        {"NVIDIA A100-SXM4-40GB", 42314694656, 108, 8, 0, "NVIDIA A100 40 GB", 312, 1555},
        {"A100-PCIE-40GB", -1, -1, -1, -1, "NVIDIA A100 40 GB", 312, 1555},
        {"NVIDIA A100-SXM4-80GB", 85095874560, 108, 8, 0, "NVIDIA A100 80 GB SXM", 312, 2039},
        {"NVIDIA A100 80GB PCIe", 84974239744, 108, 8, 0, "NVIDIA A100 80 GB PCIe", 312, 1935},
        {"NVIDIA H100 80GB HBM3", 85018279936, 132, 9, 0, "NVIDIA H100 SXM", 989.4, 3350},
        {"NVIDIA H100 PCIe", 84974239744, 114, 9, 0, "NVIDIA H100 PCIe", 756, 2000},
        {"NVIDIA H100 NVL", 100000000000, 132, 9, 0, "NVIDIA H100 NVL", 835.5, 3900},
        {"NVIDIA H200", 150109880320, 132, 9, 0, "NVIDIA H200 SXM", 989.4, 4800},
        {"NVIDIA H200 NVL", 150109880320, 132, 9, 0, "NVIDIA H200 NVL", 835.5, 4800},
        {"PG509-210", 42314694656, 108, 8, 0, "NVIDIA A100 40 GB", 312, 1555},
        {"NVIDIA PG509-210", 84990623744, 108, 8, 0, "NVIDIA A100 80 GB SXM", 312, 2039},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 101973950464, 188, 12, 0,
         "NVIDIA RTX PRO 6000 Blackwell Server", 480, 1597},
        {"NVIDIA GeForce RTX 5080", 16567697408, 84, 12, 0, "NVIDIA GeForce RTX 5080", 112.6, 960},
        {"NVIDIA GeForce RTX 3060 Ti", 8346140672, 38, 8, 6, "NVIDIA GeForce RTX 3060 Ti", 32.4, 448},
        {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 102000000000, 188, 12, 0, "NVIDIA RTX PRO 6000 Blackwell",
         500, 1792},
        {"NVIDIA GeForce RTX 3070 Ti", 8360000000, 48, 8, 6, "NVIDIA GeForce RTX 3070 Ti", 43.5, 608},
        {"NVIDIA GeForce RTX 4070", 12880000000, 46, 8, 9, "NVIDIA GeForce RTX 4070", 58.3, 504},
        {"NVIDIA B200", 191000000000, 148, 10, 0, "NVIDIA B200", 2250, 7700},
        {"AMD Instinct MI250X", 68702699520, 110, 9, 0, "AMD MI250X, one of two dies", 191.5, 1638.4},
        {"AMD Instinct MI250X/MI250", 68702699520, 110, 9, 0, "AMD MI250X, one of two dies", 191.5, 1638.4},
        {"AMD Instinct MI250X / MI250", 68702699520, 104, 9, 0, "AMD MI250, one of two dies", 181, 1638.4},
        {"AMD Radeon Graphics", 68702699520, 104, 9, 0, "AMD MI250, one of two dies", 181, 1638.4},
        {"gfx90a:sramecc+:xnack-", 68702699520, 110, -1, -1, "AMD MI250X, one of two dies", 191.5, 1638.4},
        {"AMD Instinct MI300X", 206141652992, 304, 9, 4, "AMD MI300X", 1307.4, 5300},
        {"gfx942", 274877906944, 304, -1, -1, "AMD MI325X", 1307.4, 6000},
        {"AMD Instinct MI325X", 274877906944, 304, 9, 4, "AMD MI325X", 1307.4, 6000},
        {"AMD Instinct MI350X", -1, 256, -1, -1, "AMD MI350X", 2306.9, 8000},
        {"NVIDIA H800", 84943110144, 132, 9, 0, "NVIDIA H800 SXM", 989.4, 3350},
        {"NVIDIA H20", 102107054080, 78, 9, 0, "NVIDIA H20", 148, 4000},
        {"NVIDIA GB200", 191000000000, 152, 10, 0, "NVIDIA GB200", 2500, 8000},
        {"NVIDIA B300 SXM6 AC", 287000000000, 148, 10, 3, "NVIDIA B300", 2250, 8000},
        {"NVIDIA L40S", 47800000000, 142, 8, 9, "NVIDIA L40S", 362.1, 864},
        {"NVIDIA L40", 47600000000, 142, 8, 9, "NVIDIA L40", 181, 864},
        {"NVIDIA RTX 6000 Ada Generation", 51000000000, 142, 8, 9, "NVIDIA RTX 6000 Ada", 364.2, 960},
        {"NVIDIA GeForce RTX 4080 SUPER", 17200000000, 80, 8, 9, "NVIDIA GeForce RTX 4080 SUPER", 104.4, 736},
        {"NVIDIA RTX A4500", 21000000000, 56, 8, 6, "NVIDIA RTX A4500", 94.6, 640},
        {"NVIDIA A10G", 23600000000, 80, 8, 6, "NVIDIA A10G", 70, 600},
        {"NVIDIA A10", 23600000000, 72, 8, 6, "NVIDIA A10", 125, 600},
        {"NVIDIA L4", 23600000000, 58, 8, 9, "NVIDIA L4", 121, 300},
        {"NVIDIA GeForce RTX 4090", 25393692672, 128, 8, 9, "NVIDIA GeForce RTX 4090", 165.2, 1008},
        {"NVIDIA H100", 102085492736, 132, 9, 0, "NVIDIA H100 SXM 96 GB", 989.4, 3350},
        {"NVIDIA GH200 480GB", 101468602368, 132, 9, 0, "NVIDIA GH200 96 GB", 989.4, 4000},
        {"NVIDIA GeForce RTX 4060", 8585084928, 24, 8, 9, "NVIDIA GeForce RTX 4060", 30.2, 272},
        {"NVIDIA GeForce RTX 4060 Laptop GPU", 8585216000, 24, 8, 9, "NVIDIA GeForce RTX 4060 Laptop", 29.1, 256},
        {"NVIDIA RTX A4000", 16900227072, 48, 8, 6, "NVIDIA RTX A4000", 76.7, 448},
        {"NVIDIA GeForce RTX 3060", 12487294976, 28, 8, 6, "NVIDIA GeForce RTX 3060", 25.5, 360},
        {"NVIDIA GeForce RTX 3050 Laptop GPU", 4086824960, 16, 8, 6, "NVIDIA GeForce RTX 3050 Laptop", 14.25, 192},
        {"NVIDIA GeForce RTX 3050 Ti Laptop GPU", 4094427136, 20, 8, 6, "NVIDIA GeForce RTX 3050 Ti Laptop", 17.36,
         192},
        {"NVIDIA GeForce RTX 3060 Laptop GPU", 6235422720, 30, 8, 6, "NVIDIA GeForce RTX 3060 Laptop", 26.2, 336},
        {"GeForce RTX 3080", 10501423104, 68, 8, 6, "NVIDIA GeForce RTX 3080", 59.5, 760},
        {"NVIDIA RTX A5000", 25283526656, 64, 8, 6, "NVIDIA RTX A5000", 111.1, 768},
        {"NVIDIA A30", 25200000000, 56, 8, 0, "NVIDIA A30", 165, 933},
        {"NVIDIA A40", 47600000000, 84, 8, 6, "NVIDIA A40", 149.7, 696},
        {"NVIDIA RTX A6000", 50900000000, 84, 8, 6, "NVIDIA RTX A6000", 154.8, 768},
        {"NVIDIA GeForce RTX 3090", 25400000000, 82, 8, 6, "NVIDIA GeForce RTX 3090", 71, 936},
        {"AMD Instinct MI300A", 137438953472, 228, 9, 4, "AMD MI300A", 980.6, 5300},
        {"AMD Instinct MI308X", 206141652992, 80, 9, 4, "AMD MI308X", 344.1, 5300},
        {"AMD Instinct MI300X VF", 205571227648, 304, 9, 4, "AMD MI300X", 1307.4, 5300},
        {"", 206141652992, 304, 9, 4, "AMD MI300X", 1307.4, 5300}, /* some versions of ROCm give no name */
        {"", 206141652992, 80, 9, 4, "AMD MI308X", 344.1, 5300},
        {"", 137438953472, 228, 9, 4, "AMD MI300A", 980.6, 5300},
        {"AMD Instinct MI355X", 309220868096, 256, 9, 5, "AMD MI355X", 2516.6, 8000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_peaks peaks =
            find(rows[i].name, rows[i].memory, rows[i].units, rows[i].major, rows[i].minor);
        if (peaks.reason) fail_msg("%s: %s", rows[i].name, peaks.reason);
        assert_string_equal(peaks.device, rows[i].device);
        assert_true(fabs(peaks.tflops[AORTA_IN_BF16] - rows[i].bf16) < 1e-9);
        assert_true(fabs(peaks.gbytes_per_s - rows[i].gbytes_per_s) < 1e-9);
        assert_true(peaks.source && peaks.clock);
    }
}

static void what_is_not_certain_is_not_known(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t memory;
        int units, major, minor;
        const char *reason;
    } rows[] = {
        {NULL, -1, -1, -1, -1, "does not name"},
        {"NVIDIA GeForce GTX 1660", 6225000000, 22, 7, 5, "not in the table"},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", 17000000000, 76, 8, 9, "not in the table"},
        {"NVIDIA GeForce RTX 3090 Ti", -1, -1, -1, -1, "not in the table"},
        {"NVIDIA GeForce RTX 3070", -1, -1, -1, -1, "not in the table"},
        {"NVIDIA GeForce RTX 3070 Laptop GPU", 8361000000, 40, 8, 6, "not in the table"},
        {"NVIDIA L40G", 25000000000, 142, 8, 9, "not in the table"},
        {"NVIDIA GeForce RTX 2080 SUPER", 8360000000, 48, 7, 5, "not in the table"},
        {"NVIDIA GH200 480GB", -1, -1, -1, -1, "memory"}, /* of its CPU */
        {"NVIDIA H100", -1, 132, 9, 0, "several devices"},
        {"", 206141652992, -1, 9, 4, "not in the table"},
        {"", -1, 304, 9, 4, "not in the table"},
        {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10000000000, 16, 9, 0, "MIG"},
        {"AMD Instinct MI300X", 206141652992, 38, 9, 4, "multiprocessors"}, /* one of eight partitions */
        {"AMD Instinct MI250X/MI250", -1, -1, -1, -1, "several devices"},
        {"gfx942", -1, 304, -1, -1, "several devices"}, /* MI300X or MI325X */
        {"NVIDIA A100-SXM-64GB", 68000000000, 108, 8, 0, "memory"},
        {"A100-SXM4-64GB", -1, 108, 8, 0, "memory"},
        {"gfx1100", 25000000000, 96, -1, -1, "not in the table"},
        {"cpu", -1, -1, -1, -1, "not in the table"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_peaks peaks =
            find(rows[i].name, rows[i].memory, rows[i].units, rows[i].major, rows[i].minor);
        if (!peaks.reason || !strstr(peaks.reason, rows[i].reason))
            fail_msg("%s: %s, %s", rows[i].name, peaks.device ? peaks.device : "-", peaks.reason ? peaks.reason : "-");
        assert_null(peaks.device);
        assert_true(isnan(peaks.gbytes_per_s) && isnan(peaks.tflops[AORTA_IN_BF16]));
    }
}

/* Volta and Turing have no bf16. */
static void cards_without_a_type_have_no_rate_of_it(void **state) {
    (void)state;
    static const struct {
        const char *name, *device;
        int64_t memory;
        double fp16;
        int units, minor;
    } rows[] = {
        {"Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2 32 GB", 34079899648, 125, 80, 0},
        {"Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2 16 GB", 16945512448, 125, 80, 0},
        {"Tesla V100-DGXS-32GB", "NVIDIA V100 of a DGX Station", 34084028416, 125, 80, 0},
        {"Tesla V100-PCIE-32GB", "NVIDIA V100 PCIe 32 GB", 34089730048, 112, 80, 0},
        {"Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe", 34089730048, 130, 80, 0},
        {"Tesla T4", "NVIDIA T4", 15835398144, 65, 40, 5},
        {"NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti", 11554586624, 53.8, 68, 5},
        {"NVIDIA GeForce RTX 2080", "NVIDIA GeForce RTX 2080", 8361000000, 40.3, 46, 5},
        {"Quadro RTX 6000", "NVIDIA Quadro RTX 6000", 25396838400, 130.5, 72, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_peaks peaks = find(rows[i].name, rows[i].memory, rows[i].units, 7, rows[i].minor);
        if (peaks.reason) fail_msg("%s: %s", rows[i].name, peaks.reason);
        assert_string_equal(peaks.device, rows[i].device);
        assert_true(isnan(peaks.tflops[AORTA_IN_BF16]) && isnan(peaks.tflops[AORTA_IN_TF32]));
        assert_true(peaks.tflops[AORTA_IN_FP16] == rows[i].fp16);
    }
}

/* The vendors' figures are products of multiprocessors, operations a clock, and the clock. */
static void rates_are_whole_operations_a_clock(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int units;
        double mhz, bf16_a_clock;
    } rows[] = {
        {"NVIDIA A100-SXM4-40GB", 108, 1410, 2048},
        {"NVIDIA H100 80GB HBM3", 132, 1830, 4096},
        {"NVIDIA H100 PCIe", 114, 1620, 4096},
        {"NVIDIA H800", 132, 1830, 4096},
        {"NVIDIA L40S", 142, 2490, 1024},
        {"NVIDIA A10", 72, 1695, 1024},
        {"NVIDIA GeForce RTX 4090", 128, 2520, 512},
        {"NVIDIA L4", 58, 2040, 1024},
        {"NVIDIA GeForce RTX 4060 Laptop GPU", 24, 2370, 512},
        {"NVIDIA GeForce RTX 4060", 24, 2460, 512},
        {"NVIDIA GeForce RTX 3060", 28, 1777, 512},
        {"NVIDIA GeForce RTX 3050 Laptop GPU", 16, 1740, 512},
        {"NVIDIA RTX A4000", 48, 1560, 1024},
        {"NVIDIA A30", 56, 1440, 2048},
        {"NVIDIA A40", 84, 1740, 1024},
        {"NVIDIA RTX A6000", 84, 1800, 1024},
        {"AMD Instinct MI300A", 228, 2100, 2048},
        {"AMD Instinct MI308X", 80, 2100, 2048},
        {"AMD Instinct MI250X", 110, 1700, 1024},
        {"AMD Instinct MI300X", 304, 2100, 2048},
        {"AMD Instinct MI350X", 256, 2200, 4096},
        {"AMD Instinct MI355X", 256, 2400, 4096},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_peaks peaks = find(rows[i].name, -1, rows[i].units, -1, -1);
        const double expected = rows[i].units * rows[i].mhz * rows[i].bf16_a_clock / 1e6;
        if (!(fabs(peaks.tflops[AORTA_IN_BF16] / expected - 1) < 2e-3))
            fail_msg("%s: %g, expected %g", rows[i].name, peaks.tflops[AORTA_IN_BF16], expected);
        assert_true(peaks.tflops[AORTA_IN_FP16] == peaks.tflops[AORTA_IN_BF16]);
        assert_true(peaks.tflops[AORTA_IN_FP32] < peaks.tflops[AORTA_IN_BF16]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_names_are_found),
        cmocka_unit_test(cards_without_a_type_have_no_rate_of_it),
        cmocka_unit_test(what_is_not_certain_is_not_known),
        cmocka_unit_test(rates_are_whole_operations_a_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
