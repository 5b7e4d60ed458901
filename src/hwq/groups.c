#include "hwq/groups.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *text, *at;
    int world_size;
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

/* Adds one to the group that is being read, the last of the list. */
static aorta_status read_rank(struct reader *reader) {
    struct aorta_hwq_group_list *list = reader->list;
    int *end_of_group = &list->first[list->groups + 1];
    char *end;
    skip_spaces(reader);
    if (!isdigit((unsigned char)*reader->at)) return wrong(reader, "a rank is missing");
    errno = 0;
    const long value = strtol(reader->at, &end, 10);
    if (errno || value >= reader->world_size)
        return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": there is no rank %ld; this job has ranks 0 to %d",
                           reader->text, value, reader->world_size - 1);
    for (int i = list->first[list->groups]; i < *end_of_group; i++)
        if (list->ranks[i] == value)
            return AORTA_ERROR(AORTA_USAGE, "--process-groups \"%s\": rank %ld is listed twice in one group",
                               reader->text, value);
    if (*end_of_group == AORTA_HWQ_MOST_MEMBERS) return wrong(reader, "more than 4096 ranks are listed");
    list->ranks[(*end_of_group)++] = (int)value;
    reader->at = end;
    return NULL;
}

static aorta_status read_group(struct reader *reader) {
    struct aorta_hwq_group_list *list = reader->list;
    if (list->groups == AORTA_HWQ_MOST_GROUPS) return wrong(reader, "a 65th group begins");
    if (!take(reader, '[')) return wrong(reader, "\"[\" is missing");
    list->first[list->groups + 1] = list->first[list->groups];
    do AORTA_TRY(read_rank(reader));
    while (take(reader, ','));
    if (!take(reader, ']')) return wrong(reader, "\",\" or \"]\" is missing");
    list->groups++;
    return NULL;
}

aorta_status aorta_hwq_groups_parse(const char *text, int world_size, struct aorta_hwq_group_list *list) {
    struct reader reader = {.text = text, .at = text, .world_size = world_size, .list = list};
    list->groups = list->first[0] = 0;
    do AORTA_TRY(read_group(&reader));
    while (take(&reader, ','));
    skip_spaces(&reader);
    return *reader.at ? wrong(&reader, "\",\" or the end is missing") : NULL;
}

int aorta_hwq_group_size(const struct aorta_hwq_group_list *list, int group) {
    return list->first[group + 1] - list->first[group];
}

bool aorta_hwq_group_has(const struct aorta_hwq_group_list *list, int group, int rank) {
    for (int i = list->first[group]; i < list->first[group + 1]; i++)
        if (list->ranks[i] == rank) return true;
    return false;
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
