/* Work on every weight, UCL's above all, each as one pass over memory.

Plain C without headers of torch, so that one library serves every version of it: tensors come as
pointers. What each function computes stands at the Python function of the same name (calls.py, holding.py);
the formulas are those of uclearn.gaussian and uclearn.penalties.ucl.

A row (the weights that come into a node; an example of a batch) is worked on by one thread, and
sums over rows are added up in a fixed order: results do not depend on the number of threads.
`half` says that numbers are bfloat16, the upper half of a float; sums are always floats. */

#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define SMALL 32768 /* elements that are not worth waking a second thread for */
#define PIECE 4096  /* elements that a thread takes at a time */

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

static inline float softplus(float rho) { return rho > 20 ? rho : log1pf(expf(rho)); }
static inline float sigmoid(float rho) { return 1 / (1 + expf(-rho)); }
static inline float slope(float sigma) { return -expm1f(-sigma); } /* sigmoid(rho), softplus(rho) = sigma */
static inline int team(whole elements, int threads) { return elements < SMALL ? 1 : threads; }
