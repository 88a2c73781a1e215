/* What every library that `axon build` makes has inside: sizes, errors, how tensors lie. It needs the C library, and a compiler that
   has the 128-bit integers of GCC or Clang. Everything in it is static. */

#define AX_UNUSED __attribute__((unused))

/* ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────
   A call's sizes are found and checked in 128 bits, in which no formula of them wraps unnoticed: `odd` is set where one has no value,
   since it divides by 0 or does not fit. What is computed of sizes later fits 62 bits: the contract says so. */

typedef __int128 ax_wide;

AX_UNUSED static ax_wide ax_wide_floor(ax_wide a, ax_wide b, int *odd)
{
    if (b == 0) {
        *odd = 1;
        return 0;
    }
    ax_wide whole = a / b;
    return whole - (a % b != 0 && (a < 0) != (b < 0));
}

AX_UNUSED static ax_wide ax_wide_min(ax_wide a, ax_wide b)
{
    return a < b ? a : b;
}

AX_UNUSED static ax_wide ax_wide_add(ax_wide a, ax_wide b, int *odd)
{
    ax_wide sum;
    *odd |= __builtin_add_overflow(a, b, &sum);
    return sum;
}

AX_UNUSED static ax_wide ax_wide_mul(ax_wide a, ax_wide b, int *odd)
{
    ax_wide product;
    *odd |= __builtin_mul_overflow(a, b, &product);
    return product;
}

AX_UNUSED static int64_t ax_size_floor(int64_t a, int64_t b, int *odd)
{
    return (int64_t)ax_wide_floor(a, b, odd);
}

AX_UNUSED static int64_t ax_size_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

AX_UNUSED static int64_t ax_size_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The least size v from `least` to `most` for which `whole`, a formula of v that grows with it, is 0 or more; -1 if there is none. */
#define AX_ROOT(v, whole, least, most)                                                                                             \
    do {                                                                                                                           \
        ax_wide least_ = (least), most_ = (most), below_ = least_ - 1, high_ = least_, step_ = 1;                                  \
        while (high_ <= most_ && ((v) = high_, (whole) < 0)) {                                                                     \
            below_ = high_;                                                                                                        \
            high_ += step_;                                                                                                        \
            step_ *= 2;                                                                                                            \
        }                                                                                                                          \
        if (high_ > most_) {                                                                                                       \
            high_ = below_ >= most_ || ((v) = most_, (whole) < 0) ? -1 : most_;                                                    \
        }                                                                                                                          \
        while (high_ - below_ > 1) {                                                                                               \
            ax_wide middle_ = below_ + (high_ - below_) / 2;                                                                       \
            (v) = middle_;                                                                                                         \
            if ((whole) < 0) {                                                                                                     \
                below_ = middle_;                                                                                                  \
            } else {                                                                                                               \
                high_ = middle_;                                                                                                   \
            }                                                                                                                      \
        }                                                                                                                          \
        (v) = high_;                                                                                                               \
    } while (0)

/* ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static _Thread_local char ax_text_of_error[4096];

/* Write the text of this thread's last error; gives back its code. */
__attribute__((format(printf, 2, 3))) AX_UNUSED static int ax_fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ax_text_of_error, sizeof ax_text_of_error, format, arguments);
    va_end(arguments);
    return code;
}

/* A size as people write it, 65,536; it stands until this thread has asked for 32 more. */
AX_UNUSED static const char *ax_grouped(ax_wide size)
{
    static _Thread_local char texts[32][32];
    static _Thread_local unsigned next;
    char digits[24], *to = texts[next++ % 32], *const text = to;
    int count = snprintf(digits, sizeof digits, "%lld", (long long)size);
    for (int i = 0; i < count; i++) {
        *to++ = digits[i];
        if (i + 1 < count && (count - i - 1) % 3 == 0 && digits[i] != '-') {
            *to++ = ',';
        }
    }
    *to = 0;
    return text;
}

/* Of the contract, whose texts end with the signature. */
#define AX_REQUIRE(holds, ...)                                                                                                     \
    do {                                                                                                                           \
        if (!(holds)) {                                                                                                            \
            return ax_fail(AXON_SIZES, __VA_ARGS__);                                                                               \
        }                                                                                                                          \
    } while (0)

/* Where a value is made. */
#define AX_MUST(call)                                                                                                              \
    do {                                                                                                                           \
        if ((status = (call)) != AXON_OK) {                                                                                        \
            goto end;                                                                                                              \
        }                                                                                                                          \
    } while (0)

/* ── tensors ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The bytes of a tensor; -1 for more than there can be. */
AX_UNUSED static int64_t ax_bytes_of(int64_t item, const int64_t *sizes, int rank)
{
    int64_t bytes = item;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] <= 0) {
            return 0;
        }
        if (__builtin_mul_overflow(bytes, sizes[d], &bytes) || bytes > (int64_t)1 << 62) {
            return -1;
        }
    }
    return bytes;
}

AX_UNUSED static void ax_row_strides(int64_t *strides, const int64_t *sizes, int rank)
{
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        int64_t next;  /* of an empty tensor the other sizes may be any */
        step = sizes[d] > 0 && !__builtin_mul_overflow(step, sizes[d], &next) ? next : step;
    }
}

AX_UNUSED static int ax_in_rows(const int64_t *sizes, const int64_t *strides, int rank)
{
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (sizes[d] != 1 && strides[d] != step) {
            return 0;
        }
        if (__builtin_mul_overflow(step, sizes[d], &step)) {
            return 0;
        }
    }
    return 1;
}

/* From where to where the bytes of a tensor lie; of one without elements, nowhere, whatever its strides are. */
AX_UNUSED static void ax_reach(
    const void *data, const int64_t *sizes, const int64_t *strides, int rank, int64_t item, uintptr_t *low, uintptr_t *high)
{
    *low = *high = (uintptr_t)data;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] <= 0) {
            *low = *high = 0;
            return;
        }
        const uintptr_t span = (uintptr_t)strides[d] * (uintptr_t)(sizes[d] - 1) * (uintptr_t)item;
        if (strides[d] < 0) {
            *low += span;
        } else {
            *high += span;
        }
    }
    *high += (uintptr_t)item;
}
