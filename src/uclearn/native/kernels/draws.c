/* A draw of the weights. */

#include "common.h"

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
