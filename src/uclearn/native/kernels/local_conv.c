/* Noise on the outputs of a convolution. */

#include "common.h"

typedef struct {
    whole examples, channels, height, width;      /* of the input */
    whole nodes, out_height, out_width;           /* of the output */
    whole kernel[2], stride[2], padding[2], dilation[2];
    whole piece;                                  /* normals in each piece */
    int half, half_input, last, threads;          /* last: channels are the last dimension in memory */
} Conv;

/* EXAMPLE(half, half_input, last) with constants, so that the compiler makes a loop for each kind */
#define FOR_ITS_KIND(conv, EXAMPLE)                        \
    if (conv->last) {                                      \
        if (!conv->half) EXAMPLE(0, 0, 1);                 \
        else if (conv->half_input) EXAMPLE(1, 1, 1);       \
        else EXAMPLE(1, 0, 1);                             \
    } else {                                               \
        if (!conv->half) EXAMPLE(0, 0, 0);                 \
        else if (conv->half_input) EXAMPLE(1, 1, 0);       \
        else EXAMPLE(1, 0, 0);                             \
    }

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
            FOR_ITS_KIND(conv, EXAMPLE)
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
            FOR_ITS_KIND(conv, EXAMPLE)
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
