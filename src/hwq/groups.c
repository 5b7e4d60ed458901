#include "hwq/groups.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *text, *at;
    int rank, world_size;
    int taken[AORTA_HWQ_MOST_RANKS]; /* 0: not yet; else by which group, from 1 */
    struct aorta_hwq_group_list *list;
};

static aorta_status wrong(const struct reader *reader, const char *what) {
    return AORTA_ERROR(AORTA_USAGE,
                       "--process-groups \"%s\": %s at character %td; groups are written as in \"[0,1],[2,3]\"",
                       reader->text, what, reader->at - reader->text + 1);
}

static void skip_spaces(struct reader *reader) {
    while (isspace((unsigned char)*reader->at)) reader->at++;
}

static bool take(struct reader *reader, char wanted) {
    skip_spaces(reader);
    if (*reader->at != wanted) return false;
    reader->at++;
    return true;
}

static aorta_status read_rank(struct reader *reader, int *rank) {
    char *end;
    skip_spaces(reader);
    if (!isdigit((unsigned char)*reader->at)) return wrong(reader, "a rank is missing");
    errno = 0;
    const long value = strtol(reader->at, &end, 10);
    if (errno || value >= reader->world_size || value >= AORTA_HWQ_MOST_RANKS)
        return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": there is no rank %ld; this job has ranks 0 to %d",
                           reader->text, value, reader->world_size - 1);
    const int group = reader->list->groups + 1;
    if (reader->taken[value] == group)
        return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": rank %ld stands twice in one group", reader->text,
                           value);
    if (reader->taken[value])
        return AORTA_ERROR(AORTA_USAGE,
                           "--process-groups \"%s\": rank %ld is in two groups; groups that overlap cannot be run yet: "
                           "give each rank to one",
                           reader->text, value);
    reader->taken[value] = group;
    reader->at = end;
    *rank = (int)value;
    return NULL;
}

static aorta_status read_group(struct reader *reader) {
    int ranks[AORTA_HWQ_MOST_RANKS], count = 0;
    bool mine = false;
    if (!take(reader, '[')) return wrong(reader, "\"[\" is missing");
    do {
        AORTA_TRY(read_rank(reader, &ranks[count]));
        mine |= ranks[count++] == reader->rank;
    } while (take(reader, ','));
    if (!take(reader, ']')) return wrong(reader, "\",\" or \"]\" is missing");
    reader->list->groups++;
    if (!mine) return NULL;
    memcpy(reader->list->ranks, ranks, (size_t)count * sizeof *ranks);
    reader->list->count = count;
    return NULL;
}

aorta_status aorta_hwq_groups_parse(const char *text, int rank, int world_size, struct aorta_hwq_group_list *list) {
    struct reader reader = {.text = text, .at = text, .rank = rank, .world_size = world_size, .list = list};
    list->count = list->groups = 0;
    do AORTA_TRY(read_group(&reader));
    while (take(&reader, ','));
    skip_spaces(&reader);
    return *reader.at ? wrong(&reader, "\",\" or the end is missing") : NULL;
}

aorta_status aorta_hwq_size_parse(const char *option, const char *text, int64_t *bytes) {
    static const char *const endings[][4] = {{"", "B"}, {"K", "KB", "KiB"}, {"M", "MB", "MiB"}, {"G", "GB", "GiB"}};
    char *end;
    errno = 0;
    const double number = strtod(text, &end);
    for (int power = 0; power < 4 && end != text && !errno; power++)
        for (int i = 0; i < 4 && endings[power][i]; i++) {
            if (strcasecmp(end, endings[power][i]) != 0) continue;
            const double size = number * (double)((int64_t)1 << (10 * power));
            if (!(size >= 1.0 && size <= 0x1p45)) continue;
            *bytes = (int64_t)size;
            return NULL;
        }
    return AORTA_ERROR(AORTA_USAGE, "--%s \"%s\": a number of bytes is expected, as in 65536, 64K, 128M or 1G", option,
                       text);
}

aorta_status aorta_hwq_shape_parse(const char *option, const char *text, int64_t shape[3]) {
    const char *at = text;
    int count = 0;
    for (; count < 3; count++) {
        char *end;
        errno = 0;
        shape[count] = strtoll(at, &end, 10);
        if (errno || end == at || shape[count] < 1 || shape[count] > 1 << 20) break;
        at = end;
        if (*at != ',') {
            count++;
            break;
        }
        at++;
    }
    if (*at || (count != 1 && count != 3))
        return AORTA_ERROR(AORTA_USAGE,
                           "--%s \"%s\": one size or three, M,N,K, from 1 to %d are expected, as in 4096 or "
                           "4096,1024,8192",
                           option, text, 1 << 20);
    if (count == 1) shape[1] = shape[2] = shape[0];
    return NULL;
}
