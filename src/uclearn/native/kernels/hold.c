/* What UCL holds: what nodes say, and the weights. */

#include "hold.h"

/* ---- what holds what nodes say ------------------------------------------------------------- */

/* bias, bias_anchor, to_bias: may be absent */
void pulled_rows(const float *weight, const float *anchor, const float *bias,
                 const float *bias_anchor, const float *mean, const float *node, float *pulled,
                 float *to_bias, whole rows, whole inputs, whole width, float one, float scale,
                 int threads) {
#pragma omp parallel for num_threads(team(rows * inputs, threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        const float *w = weight + row * inputs, *a = anchor + row * inputs;
        const float strength = node[row] * scale;
        float said = 0;
#pragma omp simd reduction(+ : said)
        for (whole i = 0; i < inputs; i++) said += (w[i] - a[i]) * mean[i];
        if (bias) said += (bias[row] - bias_anchor[row]) * one;
        if (to_bias) to_bias[row] += strength * said * one;
        float *own = pulled + row * (width + 1);
        for (whole start = 0; start < inputs; start += width, own += rows * (width + 1)) {
            const whole wide = inputs - start < width ? inputs - start : width;
            own[0] = strength * said;
#pragma omp simd
            for (whole i = 0; i < wide; i++) own[i + 1] = strength * (w[start + i] - a[start + i]);
        }
    }
}

/* the sum of gradient times how far weights have moved; values: room for one of each row */
double along(const float *gradient, const float *weight, const float *anchor, float *values,
             whole rows, whole width, int threads) {
#pragma omp parallel for num_threads(team(rows * width, threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        const whole end = (row + 1) * width;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (whole i = row * width; i < end; i++) sum += gradient[i] * (weight[i] - anchor[i]);
        values[row] = sum;
    }
    double total = 0;
    for (whole row = 0; row < rows; row++) total += values[row];
    return total;
}

/* ---- what holds the weights ---------------------------------------------------------------- */

INLINE float pull_row(const Held *held, const float *mean, float *gradient, whole row, float scale,
                      const int has_source, const int has_freeze, const int valued, const int add) {
    const whole start = row * held->width;
    const float *anchor = held->anchor + start, node = held->node[row];
    const float *source = has_source ? held->source + row / held->rows_per_group * held->width : 0;
    const float freeze = has_freeze ? held->freeze[row] : 0;
    float value = 0;
    mean += start, gradient += start;
#pragma omp simd reduction(+ : value)
    for (whole i = 0; i < held->width; i++) {
        const float was = anchor[i], moved = mean[i] - was;
        const float stiffness = has_source ? (source[i] > node ? source[i] : node) : node;
        const float pull = pull_at(was, moved, stiffness, freeze, has_freeze);
        if (valued) value += 0.5f * (stiffness * moved) * moved;
        if (valued && has_freeze) value += freeze * was * was * fabsf(moved);
        gradient[i] = add ? gradient[i] + scale * pull : scale * pull;
    }
    return value;
}

INLINE float pull_any(const Held *held, const float *mean, float *gradient, whole row, float scale,
                      const int valued, const int add) {
    if (held->source && held->freeze)
        return pull_row(held, mean, gradient, row, scale, 1, 1, valued, add);
    if (held->source) return pull_row(held, mean, gradient, row, scale, 1, 0, valued, add);
    if (held->freeze) return pull_row(held, mean, gradient, row, scale, 0, 1, valued, add);
    return pull_row(held, mean, gradient, row, scale, 0, 0, valued, add);
}

/* means, gradients: `count` of weights, then `spreads` of uncertainties; previous: of the latter */
void hold_gradient(const Held *held, float *const *means, float *const *gradients, whole count,
                   const float *const *previous, const whole *nodes, whole spreads, float scale,
                   float beta, int inflate, whole elements, int threads) {
#pragma omp parallel num_threads(team(elements, threads))
    {
        for (whole k = 0; k < count; k++) {
#pragma omp for schedule(static) nowait
            for (whole row = 0; row < held[k].rows; row++)
                pull_any(held + k, means[k], gradients[k], row, scale, 0, 1);
        }
        for (whole k = 0; k < spreads; k++) {
#pragma omp for schedule(static) nowait
            for (whole i = 0; i < nodes[k]; i++)
                spread_node(means[count + k][i], previous[k][i], gradients[count + k] + i,
                            beta * scale, inflate, 0, 1);
        }
    }
}

/* the value in `value`; 0 if there is no memory */
int hold_value(const Held *held, float *const *means, float *const *gradients, whole count,
               const float *const *previous, const whole *nodes, whole spreads, float scale,
               float beta, int inflate, whole elements, int threads, double *value) {
    whole rows = 0, start = 0;
    for (whole k = 0; k < count; k++) rows += held[k].rows;
    for (whole k = 0; k < spreads; k++) rows += nodes[k];
    float *values = malloc((rows + 1) * sizeof(float));
    if (!values) return 0;
#pragma omp parallel num_threads(team(elements, threads)) firstprivate(start)
    {
        for (whole k = 0; k < count; k++) {
#pragma omp for schedule(static) nowait
            for (whole row = 0; row < held[k].rows; row++)
                values[start + row] =
                    scale * pull_any(held + k, means[k], gradients[k], row, scale, 1, 0);
            start += held[k].rows;
        }
        for (whole k = 0; k < spreads; k++) {
#pragma omp for schedule(static) nowait
            for (whole i = 0; i < nodes[k]; i++)
                values[start + i] =
                    beta * scale * spread_node(means[count + k][i], previous[k][i],
                                               gradients[count + k] + i, beta * scale, inflate, 1, 0);
            start += nodes[k];
        }
    }
    double sum = 0;
    for (whole i = 0; i < rows; i++) sum += values[i];
    *value = sum;
    free(values);
    return 1;
}
