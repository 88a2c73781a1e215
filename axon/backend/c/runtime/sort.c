/* Stable ascending sort along the last dimension, with NaN last: by keys, unsigned integers of the same order, byte for byte. */

typedef struct {
    uint64_t key;
    int32_t place;
} ax_keyed;

typedef uint64_t (*ax_key_of)(const void *elements, int64_t at);

/* Of a float's bits: the sign turned around, zeros alike, NaN above all. */
static uint64_t ax_key_of_float(uint64_t bits, int width, uint64_t infinity)
{
    uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1), size = bits & (sign - 1);
    if (size > infinity) {
        return all;
    }
    return size == 0 ? sign : bits & sign ? ~bits & all : bits | sign;
}

#define AX_KEY(name, type, expression)                                                                                             \
    AX_UNUSED static uint64_t ax_key_##name(const void *elements, int64_t at)                                                      \
    {                                                                                                                              \
        type x = ((const type *)elements)[at];                                                                                     \
        return expression;                                                                                                         \
    }
AX_KEY(f64, uint64_t, ax_key_of_float(x, 64, 0x7ff0000000000000))
AX_KEY(f32, uint32_t, ax_key_of_float(x, 32, 0x7f800000))
AX_KEY(f16, uint16_t, ax_key_of_float(x, 16, 0x7c00))
AX_KEY(bf16, uint16_t, ax_key_of_float(x, 16, 0x7f80))
AX_KEY(f8e4m3, uint8_t, ax_key_of_float(x, 8, 0x7e))
AX_KEY(f8e5m2, uint8_t, ax_key_of_float(x, 8, 0x7c))
AX_KEY(i64, int64_t, (uint64_t)x ^ ((uint64_t)1 << 63))
AX_KEY(i32, int32_t, (uint64_t)((int64_t)x + ((int64_t)1 << 31)))
AX_KEY(i16, int16_t, (uint64_t)(x + (1 << 15)))
AX_KEY(i8, int8_t, (uint64_t)(x + (1 << 7)))
AX_KEY(u64, uint64_t, x)
AX_KEY(u32, uint32_t, x)
AX_KEY(u16, uint16_t, x)
AX_KEY(u8, uint8_t, x)
AX_KEY(bool, uint8_t, x)

typedef struct {
    const char *input;
    char *values;
    int32_t *indices;
    int64_t length, item;
    ax_key_of key;
    char *memory;
    int64_t each;
} ax_sorting;

static void ax_sort_row(const ax_sorting *s, ax_keyed *from, ax_keyed *to, int64_t row)
{
    int64_t n = s->length, start = row * n;
    uint64_t ones = 0, zeros = 0;
    for (int64_t i = 0; i < n; i++) {
        from[i].key = s->key(s->input, start + i);
        from[i].place = (int32_t)i;
        ones |= from[i].key;
        zeros |= ~from[i].key;
    }
    if (n <= 32) {
        for (int64_t i = 1; i < n; i++) {
            ax_keyed own = from[i];
            int64_t j = i;
            for (; j > 0 && from[j - 1].key > own.key; j--) {
                from[j] = from[j - 1];
            }
            from[j] = own;
        }
    } else {
        for (int shift = 0; shift < 64; shift += 8) {
            if (((ones & zeros) >> shift & 255) == 0) {
                continue; /* the same in all keys */
            }
            int64_t counts[256] = {0}, before = 0;
            for (int64_t i = 0; i < n; i++) {
                counts[from[i].key >> shift & 255]++;
            }
            for (int digit = 0; digit < 256; digit++) {
                int64_t count = counts[digit];
                counts[digit] = before;
                before += count;
            }
            for (int64_t i = 0; i < n; i++) {
                to[counts[from[i].key >> shift & 255]++] = from[i];
            }
            ax_keyed *swap = from;
            from = to;
            to = swap;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        s->indices[start + i] = from[i].place;
        memcpy(s->values + (start + i) * s->item, s->input + (start + from[i].place) * s->item, (size_t)s->item);
    }
}

static int ax_sort_rows(const void *context, int thread, int64_t first, int64_t last)
{
    const ax_sorting *s = context;
    ax_keyed *own = (ax_keyed *)(s->memory + thread * s->each);
    for (int64_t row = first; row < last; row++) {
        ax_sort_row(s, own, own + s->length, row);
    }
    return 0;
}

/* 0, or -1 where there is no memory. */
static int ax_sort(const void *input, void *values, void *indices, int64_t rows, int64_t length, int64_t item, ax_key_of key)
{
    if (rows <= 0 || length <= 0) {
        return 0;
    }
    int threads = ax_threads_for(rows, 30.0 * (double)rows * (double)length);
    ax_sorting own = {input, values, indices, length, item, key, NULL, ax_in_lines(2 * length * (int64_t)sizeof(ax_keyed))};
    own.memory = ax_room(own.each * threads);
    if (own.memory == NULL) {
        return -1;
    }
    ax_share(ax_sort_rows, &own, rows, threads);
    free(own.memory);
    return 0;
}
