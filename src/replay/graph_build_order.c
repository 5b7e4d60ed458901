/* Dependencies that a recording cannot show: where the host launches too slowly, streams never meet, and what waits for
 * what is not seen. They matter once launches are no limit any more.
 *
 * A span is taken to depend on the one launched before it on another stream, if that one had ended before it began; but
 * not between two streams that the recording shows side by side in this direction. */
#include "replay/graph_build_internal.h"

enum { MOST_STREAMS = 64, SIDE_BY_SIDE_SHARE = 20 }; /* one in so many is enough */

/* Counts for spans of stream `to` launched after one of stream `from`. */
struct pair {
    uint32_t together, all;
};

/* The last span of the launches so far, and the last one of any other stream than that. */
struct recent {
    uint32_t last, other;
};

static uint32_t launched_before(const struct aorta_replay_rank *rank, const struct recent *recent, uint32_t row) {
    if (recent->last == AORTA_GRAPH_NONE) return AORTA_GRAPH_NONE;
    return rank->spans[recent->last].stream != rank->spans[row].stream ? recent->last : recent->other;
}

static void remember(const struct aorta_replay_rank *rank, struct recent *recent, uint32_t row) {
    if (recent->last != AORTA_GRAPH_NONE && rank->spans[recent->last].stream != rank->spans[row].stream)
        recent->other = recent->last;
    recent->last = row;
}

typedef void (*take_pair)(struct aorta_graph_builder *builder, uint32_t rank, uint32_t before, uint32_t row,
                          struct pair *pair);

static void count(struct aorta_graph_builder *builder, uint32_t rank, uint32_t before, uint32_t row,
                  struct pair *pair) {
    const struct aorta_replay_span *spans = builder->recording->ranks[rank].spans;
    pair->all++;
    pair->together += spans[before].end_ns > spans[row].start_ns;
}

static void add(struct aorta_graph_builder *builder, uint32_t rank, uint32_t before, uint32_t row, struct pair *pair) {
    const struct aorta_replay_span *spans = builder->recording->ranks[rank].spans;
    if (spans[before].end_ns > spans[row].start_ns || pair->together * SIDE_BY_SIDE_SHARE > pair->all) return;
    aorta_graph_edge(builder->graph, aorta_span_end(builder, rank, before), aorta_span_start(builder, rank, row),
                     builder->usual[rank].dependency_ns, AORTA_EDGE_ORDER, true);
}

static void walk(struct aorta_graph_builder *builder, uint32_t rank, struct pair *pairs, take_pair visit) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    struct recent recent = {AORTA_GRAPH_NONE, AORTA_GRAPH_NONE};
    for (uint32_t i = 0; i < one->span_count; i++) {
        uint32_t row = builder->launched[rank][i];
        if (one->spans[row].launch == AORTA_GRAPH_NONE) return;
        uint32_t before = launched_before(one, &recent, row);
        if (before != AORTA_GRAPH_NONE)
            visit(builder, rank, before, row,
                  &pairs[one->spans[before].stream * one->stream_count + one->spans[row].stream]);
        remember(one, &recent, row);
    }
}

void aorta_graph_add_order(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    if (one->first_wait || one->stream_count > MOST_STREAMS) return;
    struct pair *pairs =
        aorta_arena_alloc(&builder->memory, ((size_t)one->stream_count * one->stream_count + 1) * sizeof *pairs);
    if (!pairs) return;
    walk(builder, rank, pairs, count);
    walk(builder, rank, pairs, add);
}
