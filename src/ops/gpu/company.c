#include "ops/gpu/company.h"

#include <pthread.h>
#include <stdlib.h>

struct entry {
    struct entry *next;
    const struct aorta_stream *stream;
    struct aorta_beside beside;
    int products;
};

struct companies {
    pthread_mutex_t lock;
    struct entry *entries; /* one for each stream that was ever told of */
};

static aorta_status create(struct aorta_device *device, void **state) {
    (void)device;
    struct companies *companies = calloc(1, sizeof *companies);
    if (!companies) return AORTA_ERROR(AORTA_MEMORY, "no memory for what products run beside");
    pthread_mutex_init(&companies->lock, NULL);
    *state = companies;
    return NULL;
}

static void destroy(void *state) {
    struct companies *companies = state;
    while (companies->entries) {
        struct entry *entry = companies->entries;
        companies->entries = entry->next;
        free(entry);
    }
    pthread_mutex_destroy(&companies->lock);
    free(companies);
}

static aorta_status find(struct aorta_device *device, struct companies **companies) {
    static const char key;
    void *state;
    AORTA_TRY(aorta_device_attachment(device, &key, create, destroy, &state));
    *companies = state;
    return NULL;
}

static struct entry *look_up(const struct companies *companies, const struct aorta_stream *stream) {
    struct entry *entry = companies->entries;
    while (entry && entry->stream != stream) entry = entry->next;
    return entry;
}

static aorta_status look_up_or_add(struct companies *companies, const struct aorta_stream *stream,
                                   struct entry **found) {
    *found = look_up(companies, stream);
    if (*found) return NULL;
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry) return AORTA_ERROR(AORTA_MEMORY, "no memory for what products run beside");
    entry->stream = stream;
    entry->next = companies->entries;
    companies->entries = *found = entry;
    return NULL;
}

int aorta_company_held(const struct aorta_beside *beside) {
    int held = 0;
    for (int i = 0; i < beside->count; i++) held += (int)beside->kernels[i].blocks;
    return held;
}

/* Something is left of the device, and all that holds the rest can be imitated. */
static bool is_possible(struct aorta_device *device, const struct aorta_beside *beside) {
    for (int i = 0; i < beside->count; i++)
        if (!beside->kernels[i].threads || beside->kernels[i].blocks > AORTA_HOLD_BLOCKS) return false;
    return aorta_device_tells_footprints(device) &&
           aorta_company_held(beside) < aorta_gpu_get_properties(device)->multiprocessors;
}

aorta_status aorta_ops_beside(struct aorta_stream *stream, const struct aorta_beside *beside, int products) {
    struct aorta_device *device = aorta_stream_device(stream);
    if (!aorta_device_is_gpu(device)) return NULL;
    if (beside->count < 0 || beside->count > AORTA_BESIDE_MOST || products < 0)
        return AORTA_ERROR(AORTA_INTERNAL, "%d products beside %d kernels; there can be %d", products, beside->count,
                           AORTA_BESIDE_MOST);
    struct companies *companies;
    AORTA_TRY(find(device, &companies));
    pthread_mutex_lock(&companies->lock);
    struct entry *entry;
    aorta_status status = look_up_or_add(companies, stream, &entry);
    if (!status) {
        entry->beside = *beside;
        entry->products = beside->count && is_possible(device, beside) ? products : 0;
    }
    pthread_mutex_unlock(&companies->lock);
    return status;
}

aorta_status aorta_company_of(struct aorta_stream *stream, struct aorta_beside *beside) {
    struct companies *companies;
    AORTA_TRY(find(aorta_stream_device(stream), &companies));
    pthread_mutex_lock(&companies->lock);
    const struct entry *entry = look_up(companies, stream);
    *beside = entry && entry->products ? entry->beside : (struct aorta_beside){0};
    pthread_mutex_unlock(&companies->lock);
    return NULL;
}

aorta_status aorta_company_leave(struct aorta_stream *stream) {
    struct companies *companies;
    AORTA_TRY(find(aorta_stream_device(stream), &companies));
    pthread_mutex_lock(&companies->lock);
    struct entry *entry = look_up(companies, stream);
    if (entry && entry->products) entry->products--;
    pthread_mutex_unlock(&companies->lock);
    return NULL;
}
