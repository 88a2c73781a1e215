/* What libraries for processors have inside beside base.c: memory, copies, threads. It needs POSIX threads, and the vectors of GCC
   or Clang. */

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
