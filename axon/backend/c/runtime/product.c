/* Sums of products, out = sum over the depth of left * right, in `element`: included once for each, with AXON_ELEMENT and
   AXON_NAME(name).

   Every axis has a step in elements of each operand and of the result, so a matrix, a batch of them and a convolution are the same:
   a tile of the result takes its rows of the left operand and its columns of the right one, some of the depth at a time, into
   memory in which they lie as the innermost loop reads them (Goto and van de Geijn 2008, "Anatomy of high-performance matrix
   multiplication"). An element of the result is summed in the order of the depth, however tiles are cut: its bits do not depend
   on the number of threads. */

#define ELEMENT AXON_ELEMENT
#define N(name) AXON_NAME(name)

enum {
    N(WIDTH) = VECTOR_BYTES / (int)sizeof(ELEMENT), /* elements of a vector */
    N(HIGH) = STRIP_ROWS,                           /* rows of the innermost tile */
    N(BROAD) = 2 * N(WIDTH),                        /* its columns: HIGH * 2 vectors are the accumulators */
    N(DEEP) = 256,
    N(ROWS) = 96 / STRIP_ROWS * STRIP_ROWS,
    N(COLUMNS) = 512,
};

typedef ELEMENT N(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));

/* `c` += or = a strip of rows times a strip of columns, over so much of the depth. */
static void N(innermost)(int64_t depth, const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int64_t along, int add)
{
    N(vector) sums[STRIP_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < STRIP_ROWS; r++) {
        sums[r][0] = sums[r][1] = (N(vector)){0};
    }
    for (int64_t k = 0; k < depth; k++) {
        N(vector) first = *(const N(vector) *)(b + k * N(BROAD));
        N(vector) second = *(const N(vector) *)(b + k * N(BROAD) + N(WIDTH));
#pragma GCC unroll 16
        for (int r = 0; r < STRIP_ROWS; r++) {
            sums[r][0] += a[k * STRIP_ROWS + r] * first;
            sums[r][1] += a[k * STRIP_ROWS + r] * second;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < STRIP_ROWS; r++) {
        N(vector) *row = (N(vector) *)(c + r * along);
        if (add) {
            sums[r][0] += row[0];
            sums[r][1] += row[1];
        }
        row[0] = sums[r][0];
        row[1] = sums[r][1];
    }
}

/* Strips of `wide` rows (or columns), each with all of the depth; what is missing of the last one is 0. */
static void N(pack)(ELEMENT *to, const ELEMENT *from, const int64_t *own, int64_t count, const int64_t *deep, int64_t depth, int wide)
{
    for (int64_t i = 0; i < count; i += wide) {
        int here = count - i < wide ? (int)(count - i) : wide, beside = here == wide;
        for (int r = 1; r < here; r++) {
            beside &= own[i + r] - own[i + r - 1] == 1;
        }
        if (beside) {
            for (int64_t k = 0; k < depth; k++) {
                memcpy(to + k * wide, from + own[i] + deep[k], (size_t)wide * sizeof(ELEMENT));
            }
        } else {
            for (int r = 0; r < here; r++) {
                const ELEMENT *row = from + own[i + r];
                for (int64_t k = 0; k < depth; k++) {
                    to[k * wide + r] = row[deep[k]];
                }
            }
            for (int r = here; r < wide; r++) {
                for (int64_t k = 0; k < depth; k++) {
                    to[k * wide + r] = 0;
                }
            }
        }
        to += depth * wide;
    }
}

static int N(tiles)(const void *context, int thread, int64_t first, int64_t last)
{
    const product *p = context;
    const ELEMENT *left = p->left, *right = p->right;
    int64_t *steps = (int64_t *)(p->memory + thread * p->each);
    int64_t *left_rows = steps, *out_rows = steps + N(ROWS), *right_columns = steps + 2 * N(ROWS);
    int64_t *out_columns = right_columns + N(COLUMNS), *left_deep = out_columns + N(COLUMNS), *right_deep = left_deep + N(DEEP);
    ELEMENT *sums = (ELEMENT *)(right_deep + N(DEEP)), *a = sums + N(ROWS) * (N(COLUMNS) + N(BROAD));
    ELEMENT *b = a + N(ROWS) * N(DEEP);
    int axis[4];
    axes_of(p, axis);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t batch = tile / (p->tall * p->broad), rest = tile % (p->tall * p->broad);
        int64_t row = rest / p->broad * p->rows, column = rest % p->broad * p->columns;
        int64_t rows = size_min(p->rows, p->counts[1] - row), columns = size_min(p->columns, p->counts[2] - column);
        int64_t from_left, from_right, to;
        places(p, axis[0], p->axes[0], batch, 1, p->left_steps, &from_left);
        places(p, axis[0], p->axes[0], batch, 1, p->right_steps, &from_right);
        places(p, axis[0], p->axes[0], batch, 1, p->out_steps, &to);
        places(p, axis[1], p->axes[1], row, rows, p->left_steps, left_rows);
        places(p, axis[1], p->axes[1], row, rows, p->out_steps, out_rows);
        places(p, axis[2], p->axes[2], column, columns, p->right_steps, right_columns);
        places(p, axis[2], p->axes[2], column, columns, p->out_steps, out_columns);
        int64_t along = (columns + N(BROAD) - 1) / N(BROAD) * N(BROAD);
        for (int64_t k = 0; k < p->counts[3]; k += N(DEEP)) {
            int64_t depth = size_min(N(DEEP), p->counts[3] - k);
            places(p, axis[3], p->axes[3], k, depth, p->left_steps, left_deep);
            places(p, axis[3], p->axes[3], k, depth, p->right_steps, right_deep);
            N(pack)(a, left + from_left, left_rows, rows, left_deep, depth, STRIP_ROWS);
            N(pack)(b, right + from_right, right_columns, columns, right_deep, depth, N(BROAD));
            for (int64_t j = 0; j < columns; j += N(BROAD)) {
                for (int64_t i = 0; i < rows; i += STRIP_ROWS) {
                    N(innermost)(depth, a + i * depth, b + j * depth, sums + i * along + j, along, k > 0);
                }
            }
        }
        ELEMENT *out = (ELEMENT *)p->out + to;
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < columns; j++) {
                out[out_rows[i] + out_columns[j]] = sums[i * along + j];
            }
        }
    }
    return 0;
}

/* 0, or -1 where there is no memory. */
UNUSED static int N(multiply)(product p)
{
    count(&p);
    if (p.counts[0] == 0 || p.counts[1] == 0 || p.counts[2] == 0) {
        return 0;
    }
    p.rows = size_min(N(ROWS), p.counts[1]);
    p.columns = size_min(N(COLUMNS), p.counts[2]);
    p.tall = (p.counts[1] + p.rows - 1) / p.rows;
    p.broad = (p.counts[2] + p.columns - 1) / p.columns;
    int64_t items = p.counts[0] * p.tall * p.broad;
    double cost = 1.0 * (double)p.counts[0] * (double)p.counts[1] * (double)p.counts[2] * (double)p.counts[3] / 4;
    int threads = threads_for(items, cost);
    if (threads > 1 && items < 4 * (int64_t)threads && p.counts[2] > 2 * N(BROAD)) { /* smaller tiles, for all threads */
        p.columns = size_max(2 * N(BROAD), p.columns / 4 / N(BROAD) * N(BROAD));
        p.broad = (p.counts[2] + p.columns - 1) / p.columns;
        items = p.counts[0] * p.tall * p.broad;
    }
    p.each = in_lines((2 * N(ROWS) + 2 * N(COLUMNS) + 2 * N(DEEP)) * (int64_t)sizeof(int64_t)
        + (N(ROWS) * (N(COLUMNS) + N(BROAD)) + N(ROWS) * N(DEEP) + (N(COLUMNS) + N(BROAD)) * N(DEEP)) * (int64_t)sizeof(ELEMENT));
    p.memory = room(p.each * threads);
    if (p.memory == NULL) {
        return -1;
    }
    share(N(tiles), &p, items, threads);
    free(p.memory);
    return 0;
}

#undef ELEMENT
#undef N
#undef AXON_ELEMENT
#undef AXON_NAME
