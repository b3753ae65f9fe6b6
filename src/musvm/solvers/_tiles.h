/* Products of a compressed row of points with the weights V, and updates of V by one.

   They are in C, where several labels can be said to be one vector. A tile is 4, 8 or 16 labels,
   few enough for their sums to stay in registers. Tiles are compiled for the vectors that every
   processor of the kind has, of 16 bytes, and for those of 32 bytes, which are taken where this
   processor has them. Both add up every label in the same order, and no product is fused with a
   sum (`meson.build`), so they agree to the last digit. */

#ifndef MUSVM_TILES_H
#define MUSVM_TILES_H

#include <stddef.h>

typedef unsigned short narrow;

#if defined(__GNUC__)
#define VECTOR(real, bytes) \
    real __attribute__((vector_size(bytes), aligned(sizeof(real)), may_alias))
#define ADD(real, bytes, s, x, u) (s) += (x) * (u)
#define UNROLL _Pragma("GCC unroll 8")
#define FETCH(address) __builtin_prefetch(address)
#else
#define VECTOR(real, bytes) struct { real label[bytes / sizeof(real)]; }
#define ADD(real, bytes, s, x, u) \
    for (int l = 0; l < (int)(bytes / sizeof(real)); l++) (s).label[l] += (x) * (u).label[l]
#define UNROLL
#define FETCH(address) (void)(address)
#endif

static void fetch(const void* start, ptrdiff_t n_bytes) {
    for (ptrdiff_t k = 0; k < n_bytes; k += 64) FETCH((const char*)start + k);
}

/* f = x V and V += x^T c for n labels, `count` vectors of `bytes` bytes. */
#define DEFINE_TILE_OF(target, level, real, place, n, bytes, count) \
target static void gather_##real##_##place##n##level( \
    const real* x, const place* j, ptrdiff_t size, const real* V, ptrdiff_t width, real* f \
) { \
    real##n##level even[count] = {{0}}, odd[count] = {{0}}; \
    ptrdiff_t k = 0; \
    for (; k + 1 < size; k += 2) { \
        const real##n##level* u = (const real##n##level*)(V + j[k] * width); \
        const real##n##level* v = (const real##n##level*)(V + j[k + 1] * width); \
        UNROLL for (int b = 0; b < count; b++) { \
            ADD(real, bytes, even[b], x[k], u[b]); \
            ADD(real, bytes, odd[b], x[k + 1], v[b]); \
        } \
    } \
    for (; k < size; k++) { \
        const real##n##level* u = (const real##n##level*)(V + j[k] * width); \
        UNROLL for (int b = 0; b < count; b++) ADD(real, bytes, even[b], x[k], u[b]); \
    } \
    UNROLL for (int b = 0; b < count; b++) { \
        ADD(real, bytes, even[b], (real)1, odd[b]); \
        ((real##n##level*)f)[b] = even[b]; \
    } \
} \
target static void scatter_##real##_##place##n##level( \
    const real* x, const place* j, ptrdiff_t size, real* V, ptrdiff_t width, const real* c \
) { \
    real##n##level change[count]; \
    UNROLL for (int b = 0; b < count; b++) change[b] = ((const real##n##level*)c)[b]; \
    for (ptrdiff_t k = 0; k < size; k++) { \
        real##n##level* u = (real##n##level*)(V + j[k] * width); \
        UNROLL for (int b = 0; b < count; b++) ADD(real, bytes, u[b], x[k], change[b]); \
    } \
}

#define DEFINE_TILE(target, level, real, n, bytes, count) \
typedef VECTOR(real, bytes) real##n##level; \
DEFINE_TILE_OF(target, level, real, int, n, bytes, count) \
DEFINE_TILE_OF(target, level, real, narrow, n, bytes, count)

#define DEFINE_PRODUCTS_OF(level, real, place) \
static void gather_##real##_##place##level( \
    const real* x, const place* j, ptrdiff_t size, const real* V, ptrdiff_t width, real* f \
) { \
    ptrdiff_t l = 0; \
    for (; l + 16 <= width; l += 16) \
        gather_##real##_##place##16##level(x, j, size, V + l, width, f + l); \
    for (; l + 8 <= width; l += 8) \
        gather_##real##_##place##8##level(x, j, size, V + l, width, f + l); \
    if (l < width) gather_##real##_##place##4##level(x, j, size, V + l, width, f + l); \
} \
static void scatter_##real##_##place##level( \
    const real* x, const place* j, ptrdiff_t size, real* V, ptrdiff_t width, const real* c \
) { \
    ptrdiff_t l = 0; \
    for (; l + 16 <= width; l += 16) \
        scatter_##real##_##place##16##level(x, j, size, V + l, width, c + l); \
    for (; l + 8 <= width; l += 8) \
        scatter_##real##_##place##8##level(x, j, size, V + l, width, c + l); \
    if (l < width) scatter_##real##_##place##4##level(x, j, size, V + l, width, c + l); \
}

#define DEFINE_PRODUCTS(level, real) \
DEFINE_PRODUCTS_OF(level, real, int) \
DEFINE_PRODUCTS_OF(level, real, narrow)

DEFINE_TILE(, _short, float, 4, 16, 1)
DEFINE_TILE(, _short, float, 8, 16, 2)
DEFINE_TILE(, _short, float, 16, 16, 4)
DEFINE_TILE(, _short, double, 4, 16, 2)
DEFINE_TILE(, _short, double, 8, 16, 4)
DEFINE_TILE(, _short, double, 16, 16, 8)
DEFINE_PRODUCTS(_short, float)
DEFINE_PRODUCTS(_short, double)

/* Those that are taken. */
#define DECLARE(real, place) \
static void (*gather_##real##_##place)( \
    const real*, const place*, ptrdiff_t, const real*, ptrdiff_t, real*); \
static void (*scatter_##real##_##place)( \
    const real*, const place*, ptrdiff_t, real*, ptrdiff_t, const real*);
DECLARE(float, int)
DECLARE(float, narrow)
DECLARE(double, int)
DECLARE(double, narrow)

#define USE_OF(level, real, place) \
    gather_##real##_##place = gather_##real##_##place##level, \
    scatter_##real##_##place = scatter_##real##_##place##level
#define USE(level) \
    USE_OF(level, float, int), USE_OF(level, float, narrow), \
    USE_OF(level, double, int), USE_OF(level, double, narrow)

#if defined(__GNUC__) && defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
DEFINE_TILE(AVX2, _long, float, 4, 16, 1)
DEFINE_TILE(AVX2, _long, float, 8, 32, 1)
DEFINE_TILE(AVX2, _long, float, 16, 32, 2)
DEFINE_TILE(AVX2, _long, double, 4, 32, 1)
DEFINE_TILE(AVX2, _long, double, 8, 32, 2)
DEFINE_TILE(AVX2, _long, double, 16, 32, 4)
DEFINE_PRODUCTS(_long, float)
DEFINE_PRODUCTS(_long, double)

static int choose_vectors(int may_be_long) {
    __builtin_cpu_init();
    if (may_be_long && __builtin_cpu_supports("avx2")) return USE(_long), 1;
    return USE(_short), 0;
}
#else
static int choose_vectors(int may_be_long) { return USE(_short), 0; }
#endif

#endif
