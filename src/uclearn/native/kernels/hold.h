/* How weights and uncertainties are held: eq. (4), (5) and (6). */

#pragma once

#include "common.h"

typedef struct {
    const float *anchor, *node, *source, *freeze; /* source, freeze: may be absent */
    whole rows, width, rows_per_group;            /* of `source`, a row for each group */
} Held;

INLINE float pull_at(float was, float moved, float stiffness, float freeze, const int has_freeze) {
    const float pull = stiffness * moved;
    if (!has_freeze) return pull;
    const float press = freeze * was * was;
    return pull + (moved > 0 ? press : moved < 0 ? -press : 0);
}

INLINE float spread_node(float rho, float previous, float *gradient, float beta, int inflate,
                         const int valued, const int add) {
    const float sigma = softplus(rho), ratio = sigma / previous;
    const float slope = inflate ? ratio / previous + sigma - 2 / sigma : ratio / previous - 1 / sigma;
    const float own = beta * slope * sigmoid(rho);
    *gradient = add ? *gradient + own : own;
    if (!valued) return 0;
    const float kept = ratio * ratio - 2 * logf(ratio);
    return inflate ? 0.5f * (kept + sigma * sigma - 2 * logf(sigma)) : 0.5f * kept;
}
