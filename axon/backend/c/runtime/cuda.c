/* What libraries for GPUs have inside beside base.c: the driver, which is looked for when it is first needed, machine code that is
   loaded once, and launches: from tables at the sizes for which there are some, so that only addresses and the stream are a call's
   own; at all others with arguments that the call computes. The declarations are those of cuda.h. */

enum { AX_DEVICES = 64, AX_MOST_DIMENSIONS = 5 };

typedef struct {
    uint32_t grid[3], block[3], shared;
    void *stream, *attributes;
    uint32_t count;
} ax_launch_config; /* CUlaunchConfig */

typedef struct {
    int32_t id;
    char padding[4];
    union {
        uint32_t cluster[3];
        char bytes[64];
    } value;
} ax_launch_attribute; /* CUlaunchAttribute */

typedef struct {
    _Alignas(64) char bytes[128];
} ax_descriptor; /* CUtensorMap */

/* What a descriptor is encoded from, the innermost dimension first; of copies of pixels if `pixels` is not 0. */
typedef struct {
    int32_t type;
    uint32_t rank;
    uint64_t sizes[AX_MOST_DIMENSIONS], strides[AX_MOST_DIMENSIONS];
    uint32_t box[AX_MOST_DIMENSIONS], steps[AX_MOST_DIMENSIONS];
    uint32_t pixels, channels;
    int32_t lower[3], upper[3];
} ax_map;

/* A number, or one of the call's addresses and what is added to it; that as it is, or in a descriptor, which has a number. */
typedef struct {
    uint64_t value;
    int32_t address; /* -1: none */
    const ax_map *map;
    int32_t number;
} ax_argument;

typedef struct {
    void *kernel; /* CUkernel, of all devices */
    int clusters[AX_DEVICES]; /* how many run at once; 0 while nobody has asked */
    char ready[AX_DEVICES];
} ax_loaded;

typedef struct {
    const unsigned char *code;
    const char *entry;
    uint32_t shared, cluster;
    int persistent; /* no more clusters are launched than run at once */
    ax_loaded *loaded;
} ax_kernel;

typedef struct {
    const ax_kernel *kernel;
    uint32_t blocks, threads, count;
    const ax_argument *arguments;
} ax_step;

static struct {
    int (*cuInit)(unsigned);
    int (*cuCtxGetDevice)(int *);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuGetErrorName)(int, const char **);
    int (*cuLibraryLoadData)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
    int (*cuLibraryGetKernel)(void **, void *, const char *);
    int (*cuKernelSetAttribute)(int, int, void *, int);
    int (*cuOccupancyMaxActiveClusters)(int *, void *, const ax_launch_config *);
    int (*cuLaunchKernelEx)(const ax_launch_config *, void *, void **, void **);
    int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
        const uint32_t *, int, int, int, int);
    int (*cuTensorMapEncodeIm2col)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const int *, const int *,
        uint32_t, uint32_t, const uint32_t *, int, int, int, int);
    int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, void *);
    int (*cuMemsetD16Async)(uint64_t, unsigned short, size_t, void *);
    int (*cuMemsetD32Async)(uint64_t, unsigned, size_t, void *);
    int (*cuMemHostAlloc)(void **, size_t, unsigned);
} ax_cuda;
static const char *ax_cuda_lacks = "libcuda.so.1";
static pthread_once_t ax_cuda_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t ax_cuda_lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t *ax_failed; /* an i32 of host memory that GPUs see, in which kernels note that the program must stop */

static void ax_cuda_open(void)
{
    static const char *const names[] = {"cuInit", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuGetErrorName", "cuLibraryLoadData",
        "cuLibraryGetKernel", "cuKernelSetAttribute", "cuOccupancyMaxActiveClusters", "cuLaunchKernelEx", "cuTensorMapEncodeTiled",
        "cuTensorMapEncodeIm2col", "cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemHostAlloc"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return;
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        void *found = dlsym(library, names[n]);
        if (found == NULL) {
            ax_cuda_lacks = names[n];
            return;
        }
        memcpy((char *)&ax_cuda + n * sizeof found, &found, sizeof found);
    }
    ax_cuda_lacks = NULL;
}

static int ax_refused(const char *call, int code)
{
    const char *name = NULL;
    ax_cuda.cuGetErrorName(code, &name);
    return ax_fail(code == 2 ? AXON_MEMORY : AXON_GPU, "error[AX0612]: the GPU's driver refused to run a kernel: %s: %s", call,
        name != NULL ? name : "an error without a name");
}

#define AX_ASK(call, ...)                                                                                                          \
    do {                                                                                                                           \
        const int code_ = ax_cuda.call(__VA_ARGS__);                                                                               \
        if (code_ != 0) {                                                                                                          \
            return ax_refused(#call, code_);                                                                                       \
        }                                                                                                                          \
    } while (0)

/* The device of the calling thread's current context, which must be one for which this library has machine code. */
static int ax_cuda_device(int *device)
{
    static char known[AX_DEVICES];
    pthread_once(&ax_cuda_once, ax_cuda_open);
    if (ax_cuda_lacks != NULL) {
        return ax_fail(AXON_GPU, "error[AX0604]: there is no driver for GPUs here, or it is too old: %s is missing", ax_cuda_lacks);
    }
    const int code = ax_cuda.cuCtxGetDevice(device);
    if (code == 3 || code == 201) {
        return ax_fail(AXON_GPU,
            "error[AX0612]: this thread has no current context of a GPU: cudaSetDevice gives it one");
    }
    if (code != 0) {
        return ax_refused("cuCtxGetDevice", code);
    }
    if (*device < 0 || *device >= AX_DEVICES) {
        return ax_fail(AXON_GPU, "error[AX0612]: GPU number %d is more than this library knows", *device);
    }
    if (!__atomic_load_n(&known[*device], __ATOMIC_ACQUIRE)) {
        int major = 0, minor = 0;
        AX_ASK(cuDeviceGetAttribute, &major, 75, *device);
        AX_ASK(cuDeviceGetAttribute, &minor, 76, *device);
        if (major != AX_MAJOR || minor != AX_MINOR) {
            return ax_fail(AXON_GPU, "error[AX0604]: this library is for GPUs of compute capability %d.%d, and this one is of %d.%d",
                AX_MAJOR, AX_MINOR, major, minor);
        }
        __atomic_store_n(&known[*device], 1, __ATOMIC_RELEASE);
    }
    return AXON_OK;
}

/* A word for failures, once. */
AX_UNUSED static int ax_cuda_word(void)
{
    int code = 0;
    if (__atomic_load_n(&ax_failed, __ATOMIC_ACQUIRE) != NULL) {
        return AXON_OK;
    }
    pthread_mutex_lock(&ax_cuda_lock);
    if (ax_failed == NULL) {
        void *page = NULL;
        code = ax_cuda.cuMemHostAlloc(&page, 4096, 1 | 2); /* portable, mapped */
        if (code == 0) {
            memset(page, 0, 4096);
            __atomic_store_n(&ax_failed, (int32_t *)page, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&ax_cuda_lock);
    return code == 0 ? AXON_OK : ax_refused("cuMemHostAlloc", code);
}

static int ax_cuda_prepare(const ax_kernel *own, int device)
{
    if (own->loaded->kernel == NULL) {
        void *library = NULL;
        AX_ASK(cuLibraryLoadData, &library, own->code, NULL, NULL, 0, NULL, NULL, 0);
        AX_ASK(cuLibraryGetKernel, &own->loaded->kernel, library, own->entry);
    }
    AX_ASK(cuKernelSetAttribute, 8, (int)own->shared, own->loaded->kernel, device); /* the most dynamic shared memory */
    if (own->cluster > 8) {
        AX_ASK(cuKernelSetAttribute, 14, 1, own->loaded->kernel, device); /* clusters that not every GPU takes */
    }
    return AXON_OK;
}

static int ax_cuda_load(const ax_step *step, int device)
{
    const ax_kernel *own = step->kernel;
    if (__atomic_load_n(&own->loaded->ready[device], __ATOMIC_ACQUIRE)) {
        return AXON_OK;
    }
    pthread_mutex_lock(&ax_cuda_lock);
    int status = AXON_OK;
    if (!own->loaded->ready[device] && (status = ax_cuda_prepare(own, device)) == AXON_OK && own->persistent && own->cluster > 1) {
        ax_launch_attribute cluster = {.id = 4, .value = {.cluster = {own->cluster, 1, 1}}};
        ax_launch_config config = {{step->blocks, 1, 1}, {step->threads, 1, 1}, own->shared, NULL, &cluster, 1};
        int code = ax_cuda.cuOccupancyMaxActiveClusters(&own->loaded->clusters[device], own->loaded->kernel, &config);
        status = code == 0 ? AXON_OK : ax_refused("cuOccupancyMaxActiveClusters", code);
    }
    if (status == AXON_OK) {
        __atomic_store_n(&own->loaded->ready[device], 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&ax_cuda_lock);
    return status;
}

/* What this thread has encoded last of each map, and for which address; the driver copies it when it launches. */
static _Thread_local ax_descriptor ax_descriptors[AX_MAPS];
static _Thread_local uint64_t ax_encoded[AX_MAPS];

static int ax_cuda_encode(ax_descriptor *to, const ax_map *map, uint64_t address)
{
    enum { SWIZZLE_128 = 3, PROMOTE_128 = 2 };
    if (map->pixels != 0) {
        AX_ASK(cuTensorMapEncodeIm2col, to, map->type, map->rank, (void *)address, map->sizes, map->strides, map->lower, map->upper,
            map->channels, map->pixels, map->steps, 0, SWIZZLE_128, PROMOTE_128, 0);
    } else {
        AX_ASK(cuTensorMapEncodeTiled, to, map->type, map->rank, (void *)address, map->sizes, map->strides, map->box, map->steps, 0,
            SWIZZLE_128, PROMOTE_128, 0);
    }
    return AXON_OK;
}

/* Launch kernels in order, at the addresses of a call. */
static int ax_cuda_launch(const ax_step *steps, int count, const uint64_t *addresses, int device, void *stream)
{
    for (int n = 0; n < count; n++) {
        const ax_step *step = &steps[n];
        uint64_t values[AX_MOST_ARGUMENTS];
        void *pointers[AX_MOST_ARGUMENTS + 1];
        int status = ax_cuda_load(step, device);
        if (status != AXON_OK) {
            return status;
        }
        for (uint32_t a = 0; a < step->count; a++) {
            const ax_argument *own = &step->arguments[a];
            values[a] = own->address < 0 ? own->value : addresses[own->address] + own->value;
            pointers[a] = &values[a];
            if (own->map != NULL) {
                ax_descriptor *const found = &ax_descriptors[own->number];
                pointers[a] = found;
                if (ax_encoded[own->number] != values[a]) {
                    ax_encoded[own->number] = 0; /* no address is this */
                    if ((status = ax_cuda_encode(found, own->map, values[a])) != AXON_OK) {
                        return status;
                    }
                    ax_encoded[own->number] = values[a];
                }
            }
        }
        pointers[step->count] = NULL;
        uint32_t blocks = step->blocks;
        const uint32_t most = (uint32_t)step->kernel->loaded->clusters[device] * step->kernel->cluster;
        ax_launch_config config = {{most != 0 && most < blocks ? most : blocks, 1, 1}, {step->threads, 1, 1}, step->kernel->shared,
            stream, NULL, 0};
        AX_ASK(cuLaunchKernelEx, &config, step->kernel->loaded->kernel, pointers, NULL);
    }
    return AXON_OK;
}

/* Launch a kernel for all sizes, whose arguments a call has computed from its own. */
AX_UNUSED static int ax_cuda_launch_open(const ax_kernel *kernel, int64_t blocks, uint32_t threads, uint32_t count,
    const ax_argument *arguments, const uint64_t *addresses, int device, void *stream)
{
    if (blocks <= 0) {
        return AXON_OK;
    }
    if (blocks > INT32_MAX) {
        return ax_fail(AXON_GPU, "error[AX0612]: a kernel would take %s blocks, and a GPU takes at most 2,147,483,647",
            ax_grouped(blocks));
    }
    const ax_step step = {kernel, (uint32_t)blocks, threads, count, arguments};
    return ax_cuda_launch(&step, 1, addresses, device, stream);
}

/* Write a number of 1 to 8 bytes on a stream. */
AX_UNUSED static int ax_cuda_fill(uint64_t to, const void *number, size_t bytes, void *stream)
{
    uint64_t bits = 0;
    memcpy(&bits, number, bytes);
    if (bytes == 1) {
        AX_ASK(cuMemsetD8Async, to, (unsigned char)bits, 1, stream);
    } else if (bytes == 2) {
        AX_ASK(cuMemsetD16Async, to, (unsigned short)bits, 1, stream);
    } else {
        AX_ASK(cuMemsetD32Async, to, (unsigned)bits, 1, stream);
        if (bytes == 8) {
            AX_ASK(cuMemsetD32Async, to + 4, (unsigned)(bits >> 32), 1, stream);
        }
    }
    return AXON_OK;
}

/* A tensor of the caller's, which must lie as kernels take for granted. */
AX_UNUSED static int ax_cuda_placed(const void *data, const int64_t *sizes, const int64_t *strides, int rank, const char *path)
{
    if (ax_bytes_of(1, sizes, rank) == 0) {
        return AXON_OK;
    }
    if (data == NULL) {
        return ax_fail(AXON_ARGUMENT, "error[AX0505]: `%s` has elements, and its `data` is NULL", path);
    }
    if ((uintptr_t)data % 16 != 0) {
        return ax_fail(AXON_ARGUMENT, "error[AX0505]: `%s` does not begin at a multiple of 16 bytes", path);
    }
    if (!ax_in_rows(sizes, strides, rank)) {
        return ax_fail(AXON_ARGUMENT, "error[AX0505]: the elements of `%s` do not lie in rows", path);
    }
    return AXON_OK;
}
