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
    N(WIDTH) = AX_VECTOR_BYTES / (int)sizeof(ELEMENT), /* elements of a vector */
    N(HIGH) = AX_STRIP_ROWS,                           /* rows of the innermost tile */
    N(BROAD) = 2 * N(WIDTH),                        /* its columns: HIGH * 2 vectors are the accumulators */
    N(DEEP) = 256,
    N(ROWS) = 96 / AX_STRIP_ROWS * AX_STRIP_ROWS,
    N(COLUMNS) = 512,
};

typedef ELEMENT N(vector) __attribute__((vector_size(AX_VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));

/* `c` += or = a strip of rows times a strip of columns, over so much of the depth. */
static void N(innermost)(int64_t depth, const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int64_t along, int add)
{
    N(vector) sums[AX_STRIP_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < AX_STRIP_ROWS; r++) {
        sums[r][0] = sums[r][1] = (N(vector)){0};
    }
    for (int64_t k = 0; k < depth; k++) {
        N(vector) first = *(const N(vector) *)(b + k * N(BROAD));
        N(vector) second = *(const N(vector) *)(b + k * N(BROAD) + N(WIDTH));
#pragma GCC unroll 16
        for (int r = 0; r < AX_STRIP_ROWS; r++) {
            sums[r][0] += a[k * AX_STRIP_ROWS + r] * first;
            sums[r][1] += a[k * AX_STRIP_ROWS + r] * second;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < AX_STRIP_ROWS; r++) {
        N(vector) *row = (N(vector) *)(c + r * along);
        if (add) {
            sums[r][0] += row[0];
            sums[r][1] += row[1];
        }
        row[0] = sums[r][0];
        row[1] = sums[r][1];
    }
}

/* Strips of `width` rows (or columns), each with all of the depth; what is missing of the last one is 0. */
static void N(pack)(ELEMENT *to, const ELEMENT *from, const int64_t *own, int64_t count, const int64_t *deep, int64_t depth, int width)
{
    for (int64_t i = 0; i < count; i += width) {
        int here = count - i < width ? (int)(count - i) : width, beside = here == width;
        for (int r = 1; r < here; r++) {
            beside &= own[i + r] - own[i + r - 1] == 1;
        }
        if (beside) {
            for (int64_t k = 0; k < depth; k++) {
                memcpy(to + k * width, from + own[i] + deep[k], (size_t)width * sizeof(ELEMENT));
            }
        } else {
            for (int r = 0; r < here; r++) {
                const ELEMENT *row = from + own[i + r];
                for (int64_t k = 0; k < depth; k++) {
                    to[k * width + r] = row[deep[k]];
                }
            }
            for (int r = here; r < width; r++) {
                for (int64_t k = 0; k < depth; k++) {
                    to[k * width + r] = 0;
                }
            }
        }
        to += depth * width;
    }
}

/* The same where there are few rows, of columns that lie side by side: to pack them would cost more than the sums. */
static void N(thin)(
    const ELEMENT *left, const int64_t *left_deep, const ELEMENT *right, const int64_t *right_deep, int64_t depth, ELEMENT *sums, int64_t columns)
{
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
        const ELEMENT a = left[left_deep[k]], b = left[left_deep[k + 1]], c = left[left_deep[k + 2]], d = left[left_deep[k + 3]];
        const ELEMENT *p = right + right_deep[k], *q = right + right_deep[k + 1];
        const ELEMENT *r = right + right_deep[k + 2], *s = right + right_deep[k + 3];
        for (int64_t j = 0; j < columns; j++) {
            sums[j] = sums[j] + a * p[j] + b * q[j] + c * r[j] + d * s[j];
        }
    }
    for (; k < depth; k++) {
        const ELEMENT a = left[left_deep[k]], *p = right + right_deep[k];
        for (int64_t j = 0; j < columns; j++) {
            sums[j] += a * p[j];
        }
    }
}

static int N(tiles)(const void *context, int thread, int64_t first, int64_t last)
{
    const ax_product *p = context;
    const ELEMENT *left = p->left, *right = p->right;
    int64_t *steps = (int64_t *)(p->memory + thread * p->each);
    int64_t *left_rows = steps, *out_rows = steps + N(ROWS), *right_columns = steps + 2 * N(ROWS);
    int64_t *out_columns = right_columns + N(COLUMNS), *left_deep = out_columns + N(COLUMNS), *right_deep = left_deep + N(DEEP);
    ELEMENT *sums = (ELEMENT *)(right_deep + N(DEEP)), *a = sums + N(ROWS) * (N(COLUMNS) + N(BROAD));
    ELEMENT *b = a + N(ROWS) * N(DEEP);
    int axis[4];
    ax_axes_of(p, axis);
    for (int64_t tile = first; tile < last; tile++) {
        int64_t batch = tile / (p->tall * p->broad), rest = tile % (p->tall * p->broad);
        int64_t row = rest / p->broad * p->rows, column = rest % p->broad * p->columns;
        int64_t rows = ax_size_min(p->rows, p->counts[1] - row), columns = ax_size_min(p->columns, p->counts[2] - column);
        int64_t from_left, from_right, to;
        ax_places(p, axis[0], p->axes[0], batch, 1, p->left_steps, &from_left);
        ax_places(p, axis[0], p->axes[0], batch, 1, p->right_steps, &from_right);
        ax_places(p, axis[0], p->axes[0], batch, 1, p->out_steps, &to);
        ax_places(p, axis[1], p->axes[1], row, rows, p->left_steps, left_rows);
        ax_places(p, axis[1], p->axes[1], row, rows, p->out_steps, out_rows);
        ax_places(p, axis[2], p->axes[2], column, columns, p->right_steps, right_columns);
        ax_places(p, axis[2], p->axes[2], column, columns, p->out_steps, out_columns);
        int64_t along = (columns + N(BROAD) - 1) / N(BROAD) * N(BROAD);
        for (int64_t k = 0; k < p->counts[3]; k += N(DEEP)) {
            int64_t depth = ax_size_min(N(DEEP), p->counts[3] - k);
            ax_places(p, axis[3], p->axes[3], k, depth, p->left_steps, left_deep);
            ax_places(p, axis[3], p->axes[3], k, depth, p->right_steps, right_deep);
            if (p->thin) {
                for (int64_t i = 0; i < rows; i++) {
                    if (k == 0) {
                        memset(sums + i * along, 0, (size_t)columns * sizeof(ELEMENT));
                    }
                    const ELEMENT *row = left + from_left + left_rows[i], *first_column = right + from_right + right_columns[0];
                    N(thin)(row, left_deep, first_column, right_deep, depth, sums + i * along, columns);
                }
                continue;
            }
            N(pack)(a, left + from_left, left_rows, rows, left_deep, depth, AX_STRIP_ROWS);
            N(pack)(b, right + from_right, right_columns, columns, right_deep, depth, N(BROAD));
            for (int64_t j = 0; j < columns; j += N(BROAD)) {
                for (int64_t i = 0; i < rows; i += AX_STRIP_ROWS) {
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
AX_UNUSED static int N(multiply)(ax_product p)
{
    ax_count(&p);
    if (p.counts[0] == 0 || p.counts[1] == 0 || p.counts[2] == 0) {
        return 0;
    }
    p.thin = p.counts[1] <= AX_THIN && ax_side_by_side(&p, 2, p.right_steps);
    p.rows = ax_size_min(N(ROWS), p.counts[1]);
    p.columns = ax_size_min(N(COLUMNS), p.counts[2]);
    p.tall = (p.counts[1] + p.rows - 1) / p.rows;
    p.broad = (p.counts[2] + p.columns - 1) / p.columns;
    int64_t items = p.counts[0] * p.tall * p.broad;
    double cost = 1.0 * (double)p.counts[0] * (double)p.counts[1] * (double)p.counts[2] * (double)p.counts[3] / 4;
    int threads = ax_threads_for(items, cost);
    if (threads > 1 && items < 4 * (int64_t)threads && p.counts[2] > 2 * N(BROAD)) { /* smaller tiles, for all threads */
        p.columns = ax_size_max(2 * N(BROAD), p.columns / 4 / N(BROAD) * N(BROAD));
        p.broad = (p.counts[2] + p.columns - 1) / p.columns;
        items = p.counts[0] * p.tall * p.broad;
    }
    p.each = ax_in_lines((2 * N(ROWS) + 2 * N(COLUMNS) + 2 * N(DEEP)) * (int64_t)sizeof(int64_t)
        + (N(ROWS) * (N(COLUMNS) + N(BROAD)) + N(ROWS) * N(DEEP) + (N(COLUMNS) + N(BROAD)) * N(DEEP)) * (int64_t)sizeof(ELEMENT));
    p.memory = ax_room(p.each * threads);
    if (p.memory == NULL) {
        return -1;
    }
    ax_share(N(tiles), &p, items, threads);
    free(p.memory);
    return 0;
}

#undef ELEMENT
#undef N
#undef AXON_ELEMENT
#undef AXON_NAME
