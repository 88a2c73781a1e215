/* What products of f32 and of f64 share; `product.c` follows, once for each that there is. */

#if defined(__AVX512F__)
enum { AX_VECTOR_BYTES = 64, AX_STRIP_ROWS = 12 };
#elif defined(__AVX__)
enum { AX_VECTOR_BYTES = 32, AX_STRIP_ROWS = 6 };
#else
enum { AX_VECTOR_BYTES = 16, AX_STRIP_ROWS = 6 };
#endif

enum { AX_THIN = 3 /* rows */ };

/* Axes in the order batch, rows, columns, depth, `axes` of each; `counts` are the indices of each kind together. */
typedef struct {
    const void *left, *right;
    void *out;
    int axes[4];
    const int64_t *sizes, *left_steps, *right_steps, *out_steps;
    int64_t counts[4], rows, columns, tall, broad;
    int thin;
    char *memory;
    int64_t each;
} ax_product;

static void ax_axes_of(const ax_product *p, int *first)
{
    for (int kind = 0, axis = 0; kind < 4; kind++) {
        first[kind] = axis;
        axis += p->axes[kind];
    }
}

static void ax_count(ax_product *p)
{
    for (int kind = 0, axis = 0; kind < 4; kind++) {
        p->counts[kind] = 1;
        for (int i = 0; i < p->axes[kind]; i++) {
            p->counts[kind] *= ax_size_max(0, p->sizes[axis++]);
        }
    }
}

/* Where the indices from `start` on of some axes, as one, lie in a tensor. */
static void ax_places(const ax_product *p, int first, int axes, int64_t start, int64_t amount, const int64_t *steps, int64_t *found)
{
    int64_t index[32], place = 0;
    for (int d = axes - 1; d >= 0; d--) {
        index[d] = start % p->sizes[first + d];
        start /= p->sizes[first + d];
        place += index[d] * steps[first + d];
    }
    for (int64_t i = 0; i < amount; i++) {
        found[i] = place;
        for (int d = axes - 1; d >= 0; d--) {
            place += steps[first + d];
            if (++index[d] < p->sizes[first + d]) {
                break;
            }
            place -= steps[first + d] * p->sizes[first + d];
            index[d] = 0;
        }
    }
}

/* Whether the indices of a kind of axes, as one, lie side by side. */
static int ax_side_by_side(const ax_product *p, int kind, const int64_t *steps)
{
    int first[4];
    int64_t step = 1;
    ax_axes_of(p, first);
    for (int d = p->axes[kind] - 1; d >= 0; d--) {
        int axis = first[kind] + d;
        if (p->sizes[axis] != 1 && steps[axis] != step) {
            return 0;
        }
        step *= p->sizes[axis];
    }
    return 1;
}
