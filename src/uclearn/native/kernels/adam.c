/* Adam, with what UCL holds read on the way.

The order of operations is that of torch's fused Adam, so that results are the same to the bit. It
takes eight elements at a time and adds up the square of those that remain in another order. */

#include "hold.h"


typedef struct {
    double lr, beta1, beta2, eps, weight_decay;
} Rates;

typedef struct {
    float *weight, *mean, *square, *step;
    const Rates *rates;
    const Held *held;      /* of a weight; may be absent */
    const float *previous; /* of an uncertainty; may be absent */
    whole size;
} Row;

typedef struct {
    float decay, near, kept, gain, root, eps, rate;
    int keeps; /* most of the mean */
    whole eights;
} Coefficients;

static Coefficients coefficients(const Row *own) {
    const Rates *of = own->rates;
    const float near = 1 - of->beta1;
    const int keeps = near < 0.5f;
    return (Coefficients){
        .decay = of->weight_decay,
        .near = keeps ? near : near - 1,
        .kept = of->beta2,
        .gain = 1 - of->beta2,
        .root = sqrt(1 - pow(of->beta2, *own->step)),
        .eps = of->eps,
        .rate = -(of->lr / (1 - pow(of->beta1, *own->step))),
        .keeps = keeps,
        .eights = own->size & ~7,
    };
}

INLINE float times_plus(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

INLINE void move(const Row *own, const Coefficients by, whole i, float gradient) {
    const float weight = own->weight[i], before = own->mean[i];
    if (by.decay != 0) gradient = times_plus(weight, by.decay, gradient);
    const float mean = times_plus(by.near, gradient - before, by.keeps ? before : gradient);
    const float kept = own->square[i], part = by.gain * gradient;
    const float square = i < by.eights ? times_plus(part, gradient, kept * by.kept)
                                       : times_plus(kept, by.kept, part * gradient);
    own->mean[i] = mean;
    own->square[i] = square;
    own->weight[i] = weight + by.rate * mean / (sqrtf(square) / by.root + by.eps);
}

INLINE void move_row(const Row *own, const Coefficients by, const float *gradient, whole row,
                     float scale, const int has_source, const int has_freeze) {
    const Held *held = own->held;
    const whole start = row * held->width;
    const float *anchor = held->anchor + start, node = held->node[row];
    const float *source = has_source ? held->source + row / held->rows_per_group * held->width : 0;
    const float freeze = has_freeze ? held->freeze[row] : 0;
#pragma omp simd
    for (whole i = 0; i < held->width; i++) {
        const float was = anchor[i], moved = own->weight[start + i] - was;
        const float stiffness = has_source ? (source[i] > node ? source[i] : node) : node;
        const float pull = pull_at(was, moved, stiffness, freeze, has_freeze);
        move(own, by, start + i, gradient[start + i] + scale * pull);
    }
}

static void move_held(const Row *own, const Coefficients by, const float *gradient, whole row,
                      float scale) {
    const int source = own->held->source != 0, freeze = own->held->freeze != 0;
    if (source && freeze) move_row(own, by, gradient, row, scale, 1, 1);
    else if (source) move_row(own, by, gradient, row, scale, 1, 0);
    else if (freeze) move_row(own, by, gradient, row, scale, 0, 1);
    else move_row(own, by, gradient, row, scale, 0, 0);
}

/* rows of one weight, as biases are */
static void move_nodes(const Row *own, const Coefficients by, const float *gradient, whole start,
                       whole end, float scale) {
    const Held *held = own->held;
    const float *anchor = held->anchor, *node = held->node, *freeze = held->freeze;
    if (freeze)
#pragma omp simd
        for (whole i = start; i < end; i++) {
            const float pull = pull_at(anchor[i], own->weight[i] - anchor[i], node[i], freeze[i], 1);
            move(own, by, i, gradient[i] + scale * pull);
        }
    else
#pragma omp simd
        for (whole i = start; i < end; i++) {
            const float pull = pull_at(anchor[i], own->weight[i] - anchor[i], node[i], 0, 0);
            move(own, by, i, gradient[i] + scale * pull);
        }
}

static void move_piece(const Row *own, const Coefficients by, const float *gradient, whole start,
                       whole end) {
#pragma omp simd
    for (whole i = start; i < end; i++) move(own, by, i, gradient[i]);
}

static void move_spreads(const Row *own, const Coefficients by, const float *gradient, whole start,
                         whole end, float beta, int inflate) {
    for (whole i = start; i < end; i++) {
        float felt = gradient[i];
        spread_node(own->weight[i], own->previous[i], &felt, beta, inflate, 0, 1);
        move(own, by, i, felt);
    }
}

/* gradients: of each row */
void adam(const Row *rows, const float *const *gradients, whole count, float scale, float beta,
          int inflate, whole elements, int threads) {
    for (whole k = 0; k < count; k++) *rows[k].step += 1;
#pragma omp parallel num_threads(team(elements, threads))
    for (whole k = 0; k < count; k++) {
        const Row *own = rows + k;
        const float *gradient = gradients[k];
        const Held *held = own->held;
        const Coefficients by = coefficients(own);
        if (held && (held->width > 1 || held->source)) {
#pragma omp for schedule(static) nowait
            for (whole row = 0; row < held->rows; row++) move_held(own, by, gradient, row, scale);
            continue;
        }
#pragma omp for schedule(static) nowait
        for (whole start = 0; start < own->size; start += PIECE) {
            const whole end = start + PIECE < own->size ? start + PIECE : own->size;
            if (held) move_nodes(own, by, gradient, start, end, scale);
            else if (own->previous)
                move_spreads(own, by, gradient, start, end, beta * scale, inflate);
            else move_piece(own, by, gradient, start, end);
        }
    }
}
