/* What every library that `axon build` makes has inside: sizes, errors, memory, threads, copies. It needs the C library and POSIX
   threads, and a compiler that has the vectors and the 128-bit integers of GCC or Clang. Everything in it is static. */

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

/* ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
   Values between kernels never change once they are made, so that states of a loop and results may share them; `uses` counts who
   does. It stands in front of the elements; memory of the caller has none. */

typedef struct {
    void *data;
    int64_t *uses;
} ax_value;

static char ax_nothing[64]; /* what tensors without elements point to */

AX_UNUSED static void *ax_room(int64_t bytes)
{
    return bytes < 0 ? NULL : aligned_alloc(64, (size_t)((bytes > 0 ? bytes : 1) + 63) / 64 * 64);
}

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

/* Not inlined: GCC would warn of what it takes for memory that is used after it was freed, where another still counts. */
AX_UNUSED __attribute__((noinline)) static void ax_release(ax_value *held)
{
    if (held->uses != NULL && --*held->uses == 0) {
        free(held->uses);
    }
    held->data = NULL;
    held->uses = NULL;
}

AX_UNUSED static int ax_make(ax_value *held, int64_t bytes)
{
    ax_release(held);
    char *memory = bytes < 0 ? NULL : ax_room(bytes + 64);
    if (memory == NULL) {
        return ax_fail(AXON_MEMORY, "there is not enough memory");
    }
    held->uses = (int64_t *)memory;
    *held->uses = 1;
    held->data = memory + 64;
    return AXON_OK;
}

AX_UNUSED static void ax_share_value(ax_value *held, ax_value other)
{
    if (other.uses != NULL) {
        ++*other.uses;
    }
    ax_release(held);
    *held = other;
}

/* ── tensors of the caller ───────────────────────────────────────────────────────────────────────────────────────────── */

AX_UNUSED static void ax_copy_strided(
    char *to, const int64_t *to_strides, const char *from, const int64_t *from_strides, const int64_t *sizes, int rank, int64_t item)
{
    if (rank == 0) {
        memcpy(to, from, (size_t)item);
        return;
    }
    int64_t count = sizes[0], a = to_strides[0] * item, b = from_strides[0] * item;
    if (rank == 1 && a == item && b == item) {
        memcpy(to, from, (size_t)(count > 0 ? count * item : 0));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        ax_copy_strided(to + i * a, to_strides + 1, from + i * b, from_strides + 1, sizes + 1, rank - 1, item);
    }
}

AX_UNUSED static void ax_row_strides(int64_t *strides, const int64_t *sizes, int rank)
{
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        step = sizes[d] > 0 && step < ((int64_t)1 << 31) ? step * sizes[d] : step;
    }
}

AX_UNUSED static int ax_in_rows(const int64_t *sizes, const int64_t *strides, int rank)
{
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (sizes[d] != 1 && strides[d] != step) {
            return 0;
        }
        step *= sizes[d];
    }
    return 1;
}

/* An argument: as it lies where its elements stand in rows, else copied. */
AX_UNUSED static int ax_given(
    ax_value *held, const void *data, const int64_t *sizes, const int64_t *strides, int rank, int64_t item, const char *path)
{
    int64_t bytes = ax_bytes_of(item, sizes, rank);
    if (bytes == 0) {
        held->data = ax_nothing;
        return AXON_OK;
    }
    if (data == NULL) {
        return ax_fail(AXON_ARGUMENT, "error[AX0505]: `%s` has elements, and its `data` is NULL", path);
    }
    if (ax_in_rows(sizes, strides, rank)) {
        held->data = (void *)data;
        return AXON_OK;
    }
    if (ax_make(held, bytes)) {
        return AXON_MEMORY;
    }
    int64_t own[32];
    ax_row_strides(own, sizes, rank);
    ax_copy_strided(held->data, own, data, strides, sizes, rank, item);
    return AXON_OK;
}

/* From where to where the bytes of a tensor lie. */
AX_UNUSED static void ax_reach(
    const void *data, const int64_t *sizes, const int64_t *strides, int rank, int64_t item, uintptr_t *low, uintptr_t *high)
{
    *low = *high = (uintptr_t)data;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] <= 0) {
            *high = *low;
            return;
        }
        int64_t span = strides[d] * (sizes[d] - 1) * item;
        if (span < 0) {
            *low += (uintptr_t)span;
        } else {
            *high += (uintptr_t)span;
        }
    }
    *high += (uintptr_t)item;
}

/* Room for a result that a kernel makes: where the caller wants it, or a value that is copied there at the end. */
AX_UNUSED static int ax_room_for_result(ax_value *held, void **data, int64_t bytes, int into, int direct)
{
    ax_release(held);
    if (into && !direct) {
        return ax_make(held, bytes);
    }
    if (!into && (*data = ax_room(bytes)) == NULL) {
        return ax_fail(AXON_MEMORY, "there is not enough memory");
    }
    held->data = bytes == 0 ? ax_nothing : *data;
    return AXON_OK;
}

/* A result that is made, where the caller wants it. */
AX_UNUSED static int ax_deliver(
    ax_value held, void **data, const int64_t *sizes, const int64_t *strides, int rank, int64_t item, int into)
{
    int64_t bytes = ax_bytes_of(item, sizes, rank), own[32];
    if (!into && *data == NULL && (*data = ax_room(bytes)) == NULL) {
        return ax_fail(AXON_MEMORY, "there is not enough memory");
    }
    if (held.data != *data && bytes > 0) {
        ax_row_strides(own, sizes, rank);
        ax_copy_strided(*data, strides, held.data, own, sizes, rank, item);
    }
    return AXON_OK;
}

/* ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
   One pool for all calls of this library. Its threads start when there is something to share; the calling thread computes too, and
   takes pieces like the others, so a call ends whether or not anybody helps. Into which pieces a kernel is cut follows from sizes
   alone where bits depend on it. */

enum { AX_MOST_THREADS = 1024, AX_PIECES = 4, AX_WORTH_SHARING = 100000 /* additions: about the time that sharing costs */ };

typedef int (*ax_work)(const void *context, int thread, int64_t first, int64_t last);

typedef struct ax_job {
    ax_work work;
    const void *context;
    int64_t items, pieces, next;
    int stopped, wanted, joined, inside;
    struct ax_job *after;
} ax_job;

static pthread_mutex_t ax_pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ax_pool_work = PTHREAD_COND_INITIALIZER, ax_pool_done = PTHREAD_COND_INITIALIZER;
static pthread_once_t ax_pool_once = PTHREAD_ONCE_INIT;
static ax_job *ax_pool_jobs;
static pthread_t ax_pool_threads[AX_MOST_THREADS];
static int ax_pool_started, ax_pool_ending, ax_threads_set;

AX_UNUSED static int ax_threads_available(void)
{
    static int found;
    int chosen = __atomic_load_n(&ax_threads_set, __ATOMIC_RELAXED);
    if (chosen > 0) {
        return chosen;
    }
    int known = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (known == 0) {
        const char *text = getenv("AXON_THREADS");
        long count = text != NULL ? strtol(text, NULL, 10) : 0;
        if (count < 1 || count > AX_MOST_THREADS) {
#ifdef __linux__
            cpu_set_t set;
            count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
#else
            count = sysconf(_SC_NPROCESSORS_ONLN);
#endif
        }
        known = count < 1 ? 1 : count > AX_MOST_THREADS ? AX_MOST_THREADS : (int)count;
        __atomic_store_n(&found, known, __ATOMIC_RELAXED);
    }
    return known;
}

static void ax_take(ax_job *shared, int thread)
{
    while (!__atomic_load_n(&shared->stopped, __ATOMIC_RELAXED)) {
        int64_t piece = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);
        if (piece >= shared->pieces) {
            return;
        }
        int64_t first = (int64_t)((ax_wide)shared->items * piece / shared->pieces);
        int64_t last = (int64_t)((ax_wide)shared->items * (piece + 1) / shared->pieces);
        if (shared->work(shared->context, thread, first, last)) {
            __atomic_store_n(&shared->stopped, 1, __ATOMIC_RELAXED);
        }
    }
}

static void *ax_serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&ax_pool_lock);
    while (!ax_pool_ending) {
        ax_job *found = ax_pool_jobs;
        while (found != NULL && (found->joined >= found->wanted || __atomic_load_n(&found->next, __ATOMIC_RELAXED) >= found->pieces)) {
            found = found->after;
        }
        if (found == NULL) {
            pthread_cond_wait(&ax_pool_work, &ax_pool_lock);
            continue;
        }
        int thread = ++found->joined;
        found->inside++;
        pthread_mutex_unlock(&ax_pool_lock);
        ax_take(found, thread);
        pthread_mutex_lock(&ax_pool_lock);
        if (--found->inside == 0) {
            pthread_cond_broadcast(&ax_pool_done);
        }
    }
    pthread_mutex_unlock(&ax_pool_lock);
    return NULL;
}

static void ax_forget_threads(void) /* in a child process, which has none of them */
{
    pthread_mutex_init(&ax_pool_lock, NULL);
    pthread_cond_init(&ax_pool_work, NULL);
    pthread_cond_init(&ax_pool_done, NULL);
    ax_pool_jobs = NULL;
    ax_pool_started = 0;
}

static void ax_prepare_pool(void)
{
    pthread_atfork(NULL, NULL, ax_forget_threads);
}

__attribute__((destructor)) static void ax_end_threads(void) /* before the library's code is unmapped */
{
    pthread_mutex_lock(&ax_pool_lock);
    ax_pool_ending = 1;
    pthread_cond_broadcast(&ax_pool_work);
    pthread_mutex_unlock(&ax_pool_lock);
    for (int i = 0; i < ax_pool_started; i++) {
        pthread_join(ax_pool_threads[i], NULL);
    }
    ax_pool_started = 0;
}

/* How many threads something is worth. */
AX_UNUSED static int ax_threads_for(int64_t items, double cost)
{
    double wanted = cost / AX_WORTH_SHARING < (double)items ? cost / AX_WORTH_SHARING : (double)items;
    int threads = ax_threads_available();
    return wanted < 2 ? 1 : wanted < threads ? (int)wanted : threads;
}

/* Do the work for items 0 to items - 1 on so many threads; 1 if any piece says to stop. */
AX_UNUSED static int ax_share(ax_work work, const void *context, int64_t items, int threads)
{
    if (threads <= 1) {
        return work(context, 0, 0, items);
    }
    int64_t pieces = (int64_t)threads * AX_PIECES < items ? (int64_t)threads * AX_PIECES : items;
    ax_job own = {work, context, items, pieces, 0, 0, threads - 1, 0, 0, NULL};
    pthread_once(&ax_pool_once, ax_prepare_pool);
    pthread_mutex_lock(&ax_pool_lock);
    if (ax_pool_started < threads - 1 && !ax_pool_ending) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's */
        while (ax_pool_started < threads - 1 && pthread_create(&ax_pool_threads[ax_pool_started], NULL, ax_serve, NULL) == 0) {
            ax_pool_started++;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    own.after = ax_pool_jobs;
    ax_pool_jobs = &own;
    pthread_cond_broadcast(&ax_pool_work);
    pthread_mutex_unlock(&ax_pool_lock);
    ax_take(&own, 0);
    pthread_mutex_lock(&ax_pool_lock);
    ax_job **link = &ax_pool_jobs;
    while (*link != &own) {
        link = &(*link)->after;
    }
    *link = own.after;
    while (own.inside > 0) {
        pthread_cond_wait(&ax_pool_done, &ax_pool_lock);
    }
    pthread_mutex_unlock(&ax_pool_lock);
    return own.stopped;
}

/* ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    void *const *tensors;
    const int64_t *numbers; /* sizes, and where in a thread's memory its buffers begin */
    char *memory;
    int64_t each; /* bytes of that for each thread */
} ax_arguments;

/* Into how many blocks of lanes rows are cut: of `most` lanes, or fewer where all threads have something to compute. */
AX_UNUSED static void ax_cut(int64_t *items, int64_t *lanes, int64_t extent, int64_t most, double cost, double points)
{
    enum { FEW = 64, COMPUTES = 8 };
    int threads = ax_threads_available();
    if (*items <= 0 || extent <= 0) {
        *items = 0;
        return;
    }
    int64_t blocks = (extent + most - 1) / most;
    *lanes = most;
    if (*items * blocks < threads && cost >= COMPUTES * points) {
        int64_t fewer = (extent + 2 * (int64_t)threads - 1) / (2 * (int64_t)threads);
        *lanes = ax_size_min(most, ax_size_max(FEW, fewer));
        blocks = (extent + *lanes - 1) / *lanes;
    }
    *items *= blocks;
}

/* Run a kernel on all of its items: 0, 1 where the program must stop, -1 where there is no memory. */
AX_UNUSED static int ax_launch(ax_work kernel, void *const *tensors, const int64_t *numbers, int64_t items, double cost, int64_t each)
{
    if (items <= 0) {
        return 0;
    }
    int threads = ax_threads_for(items, cost);
    ax_arguments own = {tensors, numbers, NULL, each};
    if (each > 0 && (own.memory = ax_room(each * threads)) == NULL) {
        return -1;
    }
    int stopped = ax_share(kernel, &own, items, threads);
    free(own.memory);
    return stopped;
}

AX_UNUSED static int64_t ax_in_lines(int64_t bytes)
{
    return (ax_size_max(0, bytes) + 63) / 64 * 64;
}

/* What stops a kernel: a code, and a format of an index and a size. */
typedef struct {
    int code;
    const char *text;
} ax_failure;

/* The first of these that a diagnosis has met: it has noted, for each, whether that was, the index and the size. */
AX_UNUSED static int ax_diagnosed(const int64_t *notes, const ax_failure *failures, int count)
{
    for (int i = 0; i < count; i++, notes += 4) {
        if (notes[0] != 0) {
            return ax_fail(failures[i].code, failures[i].text, (long long)notes[1], (long long)notes[2]);
        }
    }
    return ax_fail(AXON_STOPPED, "error[AX0502 or AX0503]: a kernel has stopped the program");
}
