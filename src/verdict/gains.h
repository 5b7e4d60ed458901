/* What each cause costs the recorded step, by its replay (replay/replay.h). */
#ifndef AORTA_VERDICT_GAINS_H
#define AORTA_VERDICT_GAINS_H

#include "replay/steps_graph.h"
#include "replay/trace_graph.h"
#include "timeline/analysis.h"
#include "verdict/verdict.h"

/* Sets the verdict's replay and its findings' gains, adds findings that only a replay shows, and puts those that gain
 * most first. A replay that cannot be trusted or made leaves them as they are, with the reason. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_verdict_gains(const struct aorta_trace_analysis *analysis,
                                                struct aorta_verdict *verdict);

/* Adds a finding for each remedy of compute that gains a hundredth of the step (remedy_gains.c). `built`: the graph
 * that gains are of; step_ns: its step. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_verdict_remedies(const struct aorta_trace_analysis *analysis,
                                                   const struct aorta_trace_graph *built, double step_ns,
                                                   struct aorta_verdict *verdict);

/* The same for steps of ours, of which the last AORTA_REPLAY_STEPS are replayed. */
AORTA_MUST_USE aorta_status aorta_verdict_gains_of_steps(const struct aorta_replay_run *run,
                                                         struct aorta_verdict *verdict);

/* Gives a visitor the iterations that aorta_verdict_make would analyse, as their replay takes them; borrowed, for the
 * call. AORTA_UNSUPPORTED: the ranks' clocks are not one; else as aorta_verdict_make and the visitor. (verdict.c) */
typedef aorta_status (*aorta_run_visitor)(void *user, const struct aorta_replay_run *run);
AORTA_MUST_USE aorta_status aorta_verdict_visit_run(const struct aorta_iteration *iterations, size_t count, int warmup,
                                                    aorta_run_visitor visit, void *user);

#endif
