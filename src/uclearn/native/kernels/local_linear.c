/* Noise on the outputs of a linear layer. */

#include "common.h"

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
