/* Springs, paths and masks: other methods than UCL. */

#include "common.h"

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
