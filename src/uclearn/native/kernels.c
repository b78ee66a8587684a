/* Work on every weight, UCL's above all, each as one pass over memory.

Plain C without headers of torch, so that one library serves every version of it: tensors come as
pointers. What each function computes stands at the Python function of the same name (calls.py);
the formulas are those of uclearn.gaussian and uclearn.penalties.ucl.

A row (the weights that come into a node; an example of a batch) is worked on by one thread, and
sums over rows are added up in a fixed order: results do not depend on the number of threads.
`half` says that numbers are bfloat16, the upper half of a float; sums are always floats. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define SMALL 32768 /* elements that are not worth waking a second thread for */

typedef int64_t whole;

INLINE float load(const void *numbers, whole i, const int half) {
    if (!half) return ((const float *)numbers)[i];
    union { uint32_t bits; float value; } u = {(uint32_t)((const uint16_t *)numbers)[i] << 16};
    return u.value;
}

INLINE void store(void *numbers, whole i, float value, const int half) {
    if (!half) {
        ((float *)numbers)[i] = value;
        return;
    }
    union { float value; uint32_t bits; } u = {value};
    uint32_t rounded = (u.bits + 0x7fff + ((u.bits >> 16) & 1)) >> 16; /* to nearest, ties to even */
    ((uint16_t *)numbers)[i] = value != value ? 0x7fc0 : (uint16_t)rounded;
}

INLINE const void *at(const void *numbers, whole i, const int half) {
    return (const char *)numbers + i * (half ? 2 : 4);
}

static float softplus(float rho) { return rho > 20 ? rho : log1pf(expf(rho)); }
static float sigmoid(float rho) { return 1 / (1 + expf(-rho)); }
static float slope(float sigma) { return -expm1f(-sigma); } /* sigmoid(rho), softplus(rho) = sigma */
static int team(whole elements, int threads) { return elements < SMALL ? 1 : threads; }

/* ---- a draw of the weights ---------------------------------------------------------------- */

INLINE void draw_row(const float *mean, float sigma, const float *normals, void *drawn, whole row,
                     whole width, const int half) {
    const whole start = row * width;
#pragma omp simd
    for (whole i = 0; i < width; i++)
        store(drawn, start + i, mean[start + i] + sigma * normals[start + i], half);
}

void draw(const float *mean, const float *rho, const float *normals, void *drawn, whole rows,
          whole width, int half, int threads) {
#pragma omp parallel for num_threads(team(rows * width, threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        const float sigma = softplus(rho[row]);
        if (half) draw_row(mean, sigma, normals, drawn, row, width, 1);
        else draw_row(mean, sigma, normals, drawn, row, width, 0);
    }
}

INLINE float felt_by_row(const void *gradient, const float *normals, float *to_mean, whole row,
                         whole width, const int half) {
    const whole start = row * width;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (whole i = 0; i < width; i++) {
        const float g = load(gradient, start + i, half);
        if (half) to_mean[start + i] = g;
        sum += g * normals[start + i];
    }
    return sum;
}

void draw_backward(const void *gradient, const float *rho, const float *normals, float *to_mean,
                   float *to_rho, whole rows, whole width, int half, int threads) {
#pragma omp parallel for num_threads(team(rows * width, threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        const float sum = half ? felt_by_row(gradient, normals, to_mean, row, width, 1)
                               : felt_by_row(gradient, normals, to_mean, row, width, 0);
        to_rho[row] = sum * sigmoid(rho[row]);
    }
}

/* ---- noise on the outputs of a linear layer ------------------------------------------------ */

#define EXAMPLES 16 /* whose share in sigma's gradient is added up together */

INLINE void local_row(void *output, const void *input, const float *sigma, const void *normals,
                      float *lengths, whole row, whole width, whole nodes, const int half,
                      const int half_input) {
    const void *x = at(input, row * width, half_input);
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (whole i = 0; i < width; i++) {
        const float value = load(x, i, half_input);
        square += value * value;
    }
    const float length = lengths[row] = sqrtf(square);
    const whole start = row * nodes;
#pragma omp simd
    for (whole i = 0; i < nodes; i++)
        store(output, start + i,
              load(output, start + i, half) + sigma[i] * length * load(normals, start + i, half),
              half);
}

/* lengths: of the inputs; sigma of the nodes behind them */
void local(void *output, const void *input, const float *rho, const void *normals, float *lengths,
           whole rows, whole width, whole nodes, int half, int half_input, int threads) {
    float *sigma = lengths + rows;
    for (whole i = 0; i < nodes; i++) sigma[i] = softplus(rho[i]);
#pragma omp parallel for num_threads(team(rows * (width + nodes), threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        if (!half && !half_input)
            local_row(output, input, sigma, normals, lengths, row, width, nodes, 0, 0);
        else if (half && half_input)
            local_row(output, input, sigma, normals, lengths, row, width, nodes, 1, 1);
        else
            local_row(output, input, sigma, normals, lengths, row, width, nodes, half, half_input);
    }
}

INLINE float felt_by_example(const void *gradient, const float *sigma, const void *normals,
                             float length, float *to_sigma, whole row, whole nodes,
                             const int half) {
    const whole start = row * nodes;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (whole i = 0; i < nodes; i++) {
        const float felt = load(gradient, start + i, half) * load(normals, start + i, half);
        to_sigma[i] += felt * length;
        sum += felt * sigma[i];
    }
    return sum;
}

/* what is felt along the input is added to `to_input`; 0 if there is no memory */
int local_backward(const void *gradient, const void *input, const void *normals,
                   const float *lengths, void *to_input, float *to_rho, whole rows, whole width,
                   whole nodes, int half, int half_input, int threads) {
    const whole groups = (rows + EXAMPLES - 1) / EXAMPLES;
    const float *sigma = lengths + rows;
    float *sums = calloc((groups + 1) * nodes, sizeof(float));
    if (!sums) return 0;
#pragma omp parallel for num_threads(team(rows * (width + nodes), threads)) schedule(static)
    for (whole group = 0; group < groups; group++) {
        const whole end = (group + 1) * EXAMPLES < rows ? (group + 1) * EXAMPLES : rows;
        for (whole row = group * EXAMPLES; row < end; row++) {
            float *own = sums + group * nodes, length = lengths[row];
            const float felt =
                half ? felt_by_example(gradient, sigma, normals, length, own, row, nodes, 1)
                     : felt_by_example(gradient, sigma, normals, length, own, row, nodes, 0);
            if (!to_input) continue;
            const float along = length > 0 ? felt / length : 0; /* the kink: subgradient 0 */
            const whole start = row * width;
            if (half_input) {
#pragma omp simd
                for (whole i = start; i < start + width; i++)
                    store(to_input, i, load(to_input, i, 1) + along * load(input, i, 1), 1);
            } else {
#pragma omp simd
                for (whole i = start; i < start + width; i++)
                    store(to_input, i, load(to_input, i, 0) + along * load(input, i, 0), 0);
            }
        }
    }
    for (whole group = 1; group < groups; group++)
        for (whole i = 0; i < nodes; i++) sums[i] += sums[group * nodes + i];
    for (whole i = 0; i < nodes; i++) to_rho[i] = sums[i] * slope(sigma[i]);
    free(sums);
    return 1;
}

/* ---- noise on the outputs of a convolution ------------------------------------------------- */

typedef struct {
    whole examples, channels, height, width;      /* of the input */
    whole nodes, out_height, out_width;           /* of the output */
    whole kernel[2], stride[2], padding[2], dilation[2];
    whole piece;                                  /* normals in each piece */
    int half, half_input, last, threads;          /* last: channels are the last dimension in memory */
} Conv;

/* The normals of one example, in the order of its outputs; in `room` where they do not lie so. They
are numbered with channels first whatever the layout, so that the layout changes no draw. */
INLINE const void *normals_of(const void *const *pieces, const Conv *conv, whole example, char *room,
                              const int half, const int last) {
    const whole positions = conv->out_height * conv->out_width, nodes = conv->nodes;
    const whole size = nodes * positions, start = example * size, bytes = half ? 2 : 4;
    const whole first = start / conv->piece, offset = start % conv->piece;
    const void *found = at(pieces[first], offset, half);
    if (offset + size > conv->piece) { /* on two pieces, or more */
        char *copy = room + size * 4;
        for (whole done = 0, piece = first, from = offset; done < size; piece++, from = 0) {
            const whole rest = size - done, there = conv->piece - from;
            const whole some = rest < there ? rest : there;
            memcpy(copy + done * bytes, (const char *)pieces[piece] + from * bytes, some * bytes);
            done += some;
        }
        found = copy;
    }
    if (!last) return found;
    for (whole block = 0; block < positions; block += 16) {
        const whole end = block + 16 < positions ? block + 16 : positions;
        for (whole c = 0; c < nodes; c++)
            for (whole q = block; q < end; q++) {
                if (half) ((uint16_t *)room)[q * nodes + c] = ((const uint16_t *)found)[c * positions + q];
                else ((float *)room)[q * nodes + c] = ((const float *)found)[c * positions + q];
            }
    }
    return room;
}

/* to[position] = sum of squares over channels */
INLINE void squares(const void *x, float *to, whole channels, whole size, const int half,
                    const int last) {
    if (last) {
        for (whole p = 0; p < size; p++) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (whole c = 0; c < channels; c++) {
                const float value = load(x, p * channels + c, half);
                sum += value * value;
            }
            to[p] = sum;
        }
        return;
    }
    for (whole p = 0; p < size; p++) to[p] = 0;
    for (whole c = 0; c < channels; c++)
#pragma omp simd
        for (whole p = 0; p < size; p++) {
            const float value = load(x, c * size + p, half);
            to[p] += value * value;
        }
}

/* The box filter, `energy[q] = sum over its window of squares[p]`, or its transpose. */
INLINE void box(const Conv *conv, float *squares, float *energy, const int transposed) {
    for (whole ky = 0; ky < conv->kernel[0]; ky++)
        for (whole kx = 0; kx < conv->kernel[1]; kx++)
            for (whole oy = 0; oy < conv->out_height; oy++) {
                const whole y = oy * conv->stride[0] + ky * conv->dilation[0] - conv->padding[0];
                if (y < 0 || y >= conv->height) continue;
                const whole shift = kx * conv->dilation[1] - conv->padding[1], step = conv->stride[1];
                whole from = shift >= 0 ? 0 : (-shift + step - 1) / step;
                whole to = (conv->width - 1 - shift) / step + 1; /* the last that is within */
                if (conv->width - 1 - shift < 0) continue;
                if (to > conv->out_width) to = conv->out_width;
                float *row = squares + y * conv->width + shift, *out = energy + oy * conv->out_width;
                if (transposed)
                    for (whole ox = from; ox < to; ox++) row[ox * step] += out[ox];
                else
                    for (whole ox = from; ox < to; ox++) out[ox] += row[ox * step];
            }
}

INLINE void noisy(void *y, const void *normals, const float *sigma, const float *length, whole nodes,
                  whole size, const int half, const int last) {
    if (last) {
        for (whole q = 0; q < size; q++)
#pragma omp simd
            for (whole c = 0; c < nodes; c++) {
                const whole i = q * nodes + c;
                store(y, i, load(y, i, half) + sigma[c] * length[q] * load(normals, i, half), half);
            }
        return;
    }
    for (whole c = 0; c < nodes; c++)
#pragma omp simd
        for (whole q = 0; q < size; q++) {
            const whole i = c * size + q;
            store(y, i, load(y, i, half) + sigma[c] * length[q] * load(normals, i, half), half);
        }
}

INLINE void conv_example(const Conv *conv, void *output, const void *input, const float *sigma,
                         const void *const *pieces, float *length, whole b, char *room,
                         const int half, const int half_input, const int last) {
    const whole in = conv->height * conv->width, out = conv->out_height * conv->out_width;
    const whole size = conv->nodes * out;
    const void *normals = normals_of(pieces, conv, b, room, half, last);
    float *sums = (float *)(room + size * 8);
    squares(at(input, b * conv->channels * in, half_input), sums, conv->channels, in, half_input,
            last);
    for (whole q = 0; q < out; q++) length[q] = 0;
    box(conv, sums, length, 0);
    for (whole q = 0; q < out; q++) length[q] = sqrtf(length[q]);
    noisy((void *)at(output, b * size, half), normals, sigma, length, conv->nodes, out, half, last);
}

static whole room_for(const Conv *conv) {
    const whole in = conv->height * conv->width, out = conv->out_height * conv->out_width;
    return (2 * conv->nodes * out + in + out) * sizeof(float);
}

/* lengths: (examples, positions) of the output; sigma of the nodes behind them */
int local_conv(const Conv *conv, void *output, const void *input, const float *rho,
               const void *const *pieces, float *lengths) {
    const whole out = conv->out_height * conv->out_width;
    float *sigma = lengths + conv->examples * out;
    int enough = 1;
    for (whole c = 0; c < conv->nodes; c++) sigma[c] = softplus(rho[c]);
#pragma omp parallel num_threads(team(conv->examples *conv->nodes *out, conv->threads))
    {
        char *room = malloc(room_for(conv));
        if (!room) {
#pragma omp atomic write
            enough = 0;
        }
#pragma omp for schedule(static)
        for (whole b = 0; b < conv->examples; b++) {
            if (!room) continue;
            float *length = lengths + b * out;
#define EXAMPLE(half, half_input, last) \
    conv_example(conv, output, input, sigma, pieces, length, b, room, half, half_input, last)
            if (conv->last) {
                if (!conv->half) EXAMPLE(0, 0, 1);
                else if (conv->half_input) EXAMPLE(1, 1, 1);
                else EXAMPLE(1, 0, 1);
            } else {
                if (!conv->half) EXAMPLE(0, 0, 0);
                else if (conv->half_input) EXAMPLE(1, 1, 0);
                else EXAMPLE(1, 0, 0);
            }
#undef EXAMPLE
        }
        free(room);
    }
    return enough;
}

/* to_sigma[c] = sum over positions of g n length;  felt[q] = sum over nodes of g n sigma */
INLINE void felt_by_conv(const void *g, const void *normals, const float *sigma,
                         const float *length, float *to_sigma, float *felt, whole nodes, whole size,
                         const int half, const int last) {
    if (last) {
        for (whole c = 0; c < nodes; c++) to_sigma[c] = 0;
        for (whole q = 0; q < size; q++) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (whole c = 0; c < nodes; c++) {
                const float own = load(g, q * nodes + c, half) * load(normals, q * nodes + c, half);
                to_sigma[c] += own * length[q];
                sum += own * sigma[c];
            }
            felt[q] = sum;
        }
        return;
    }
    for (whole q = 0; q < size; q++) felt[q] = 0;
    for (whole c = 0; c < nodes; c++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (whole q = 0; q < size; q++) {
            const float own = load(g, c * size + q, half) * load(normals, c * size + q, half);
            sum += own * length[q];
            felt[q] += own * sigma[c];
        }
        to_sigma[c] = sum;
    }
}

INLINE void along_input(const void *x, const float *slopes, void *to_x, whole channels, whole size,
                        const int half, const int last) {
    if (last) {
        for (whole p = 0; p < size; p++)
#pragma omp simd
            for (whole c = 0; c < channels; c++)
                store(to_x, p * channels + c, 2 * slopes[p] * load(x, p * channels + c, half), half);
        return;
    }
    for (whole c = 0; c < channels; c++)
#pragma omp simd
        for (whole p = 0; p < size; p++)
            store(to_x, c * size + p, 2 * slopes[p] * load(x, c * size + p, half), half);
}

INLINE void conv_back(const Conv *conv, const void *gradient, const void *input, const float *sigma,
                      const void *const *pieces, const float *length, void *to_input,
                      float *to_sigma, whole b, char *room, const int half, const int half_input,
                      const int last) {
    const whole in = conv->height * conv->width, out = conv->out_height * conv->out_width;
    const whole size = conv->nodes * out, features = conv->channels * in;
    const void *normals = normals_of(pieces, conv, b, room, half, last);
    float *felt = (float *)(room + size * 8), *slopes = felt + out;
    felt_by_conv(at(gradient, b * size, half), normals, sigma, length, to_sigma, felt, conv->nodes,
                 out, half, last);
    if (!to_input) return;
    /* length = sqrt(energy); where nothing is active there is a kink, and the subgradient is 0 */
    for (whole q = 0; q < out; q++) felt[q] = length[q] > 0 ? felt[q] / (2 * length[q]) : 0;
    for (whole p = 0; p < in; p++) slopes[p] = 0;
    box(conv, slopes, felt, 1);
    along_input(at(input, b * features, half_input), slopes,
                (void *)at(to_input, b * features, half_input), conv->channels, in, half_input, last);
}

int local_conv_backward(const Conv *conv, const void *gradient, const void *input,
                        const void *const *pieces, const float *lengths, void *to_input,
                        float *to_rho) {
    const whole out = conv->out_height * conv->out_width;
    const float *sigma = lengths + conv->examples * out;
    float *sums = calloc((conv->examples + 1) * conv->nodes, sizeof(float));
    int enough = sums != 0;
    if (!sums) return 0;
#pragma omp parallel num_threads(team(conv->examples *conv->nodes *out, conv->threads))
    {
        char *room = malloc(room_for(conv));
        if (!room) {
#pragma omp atomic write
            enough = 0;
        }
#pragma omp for schedule(static)
        for (whole b = 0; b < conv->examples; b++) {
            if (!room) continue;
            const float *length = lengths + b * out;
            float *own = sums + b * conv->nodes;
#define EXAMPLE(half, half_input, last)                                                        \
    conv_back(conv, gradient, input, sigma, pieces, length, to_input, own, b, room, half,      \
              half_input, last)
            if (conv->last) {
                if (!conv->half) EXAMPLE(0, 0, 1);
                else if (conv->half_input) EXAMPLE(1, 1, 1);
                else EXAMPLE(1, 0, 1);
            } else {
                if (!conv->half) EXAMPLE(0, 0, 0);
                else if (conv->half_input) EXAMPLE(1, 1, 0);
                else EXAMPLE(1, 0, 0);
            }
#undef EXAMPLE
        }
        free(room);
    }
    for (whole b = 1; b < conv->examples; b++)
        for (whole c = 0; c < conv->nodes; c++) sums[c] += sums[b * conv->nodes + c];
    for (whole c = 0; c < conv->nodes; c++) to_rho[c] = sums[c] * slope(sigma[c]);
    free(sums);
    return enough;
}

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

typedef struct {
    const float *anchor, *node, *source, *freeze; /* source, freeze: may be absent */
    whole rows, width, rows_per_group;            /* of `source`, a row for each group */
} Held;

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
        float pull = stiffness * moved;
        if (valued) value += 0.5f * pull * moved;
        if (has_freeze) {
            const float press = freeze * was * was;
            pull += moved > 0 ? press : moved < 0 ? -press : 0;
            if (valued) value += press * fabsf(moved);
        }
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

/* ---- springs, paths and masks: other methods than UCL --------------------------------------- */

#define PIECE 4096 /* elements that a thread takes at a time */

/* kept, before: may be absent */
void add_spring(float *gradient, const float *weight, const float *anchor, const float *importance,
                float *kept, float *before, whole size, float strength, int threads) {
#pragma omp parallel for num_threads(team(size, threads)) schedule(static)
    for (whole start = 0; start < size; start += PIECE) {
        const whole end = start + PIECE < size ? start + PIECE : size;
        if (kept)
#pragma omp simd
            for (whole i = start; i < end; i++) {
                const float g = gradient[i], w = weight[i];
                kept[i] = fabsf(g) <= 3.402823466e38f ? g : 0; /* neither infinite nor NaN */
                before[i] = w;
                gradient[i] = g + strength * importance[i] * (w - anchor[i]);
            }
        else
#pragma omp simd
            for (whole i = start; i < end; i++)
                gradient[i] += strength * importance[i] * (weight[i] - anchor[i]);
    }
}

void add_way(float *integral, const float *gradient, const float *before, const float *now,
             whole size, int threads) {
#pragma omp parallel for num_threads(team(size, threads)) schedule(static)
    for (whole start = 0; start < size; start += PIECE) {
        const whole end = start + PIECE < size ? start + PIECE : size;
#pragma omp simd
        for (whole i = start; i < end; i++) integral[i] += gradient[i] * (before[i] - now[i]);
    }
}

/* values: absent for 0 */
void close_rows(float *into, const float *values, const float *mask, const unsigned char *closed,
                whole rows, whole width, int by_row, int threads) {
#pragma omp parallel for num_threads(team(rows * width, threads)) schedule(static)
    for (whole row = 0; row < rows; row++) {
        const whole start = row * width;
        if (!closed[row]) continue;
        if (by_row) {
            if (values) memcpy(into + start, values + start, width * sizeof(float));
            else memset(into + start, 0, width * sizeof(float));
        } else if (values) {
#pragma omp simd
            for (whole i = start; i < start + width; i++)
                into[i] = mask[i] != 0 ? values[i] : into[i];
        } else {
#pragma omp simd
            for (whole i = start; i < start + width; i++) into[i] = mask[i] != 0 ? 0 : into[i];
        }
    }
}
