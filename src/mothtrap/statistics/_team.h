/* The threads of a framework, for reading and copying what it has just computed.
 *
 * One processor cannot use the full bandwidth of the memory. When a step is read, the framework's
 * threads have just computed, and are still awake, waiting for the next operation. Starting other
 * threads would take as long as reading some megabytes with one thread, and they would compete for
 * processors. So the work runs in a parallel region of the framework's own OpenMP runtime; the
 * caller passes its entry point.
 *
 * Each array is read by one thread, from start to end, and all threads compute in the same way, so
 * the results do not depend on which thread read which array. */

#include <stdint.h>
#if defined(__SSE2__) && defined(__GNUC__)
#include <xmmintrin.h>
#define HAS_TEAM
#endif

#define SHARED_BYTES (1 << 22) /* fewer bytes are read before a team of threads has started */

/* `GOMP_parallel`, which the runtimes of GNU and LLVM have: calls `part` in each of `threads`
 * threads; 0 = the framework's number of threads. */
typedef void (*Region)(void (*part)(void *), void *shared, unsigned threads, unsigned flags);

/* Calls of a function for each of many items, in any order. */
typedef struct {
    void (*one)(void *context, int64_t i);
    void *context;
    int64_t many, next;
} Work;

#ifdef HAS_TEAM
/* Each thread has its own settings for rounding, and for flushing denormals to zero. This is the
 * setting of the standard, without exceptions. */
#define STANDARD 0x1F80u

static void take_part(void *shared)
{
    Work *work = shared;
    unsigned before = _mm_getcsr();
    int64_t i;
    _mm_setcsr(STANDARD);
    while ((i = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->many)
        work->one(work->context, i);
    _mm_setcsr(before);
}

static void do_all(Work *work, int64_t bytes, Region region)
{
    if (region != NULL && bytes >= SHARED_BYTES && work->many > 1)
        region(take_part, work, 0, 0);
    else
        take_part(work);
}
#else
static void do_all(Work *work, int64_t bytes, Region region)
{
    (void)bytes, (void)region;
    for (; work->next < work->many; work->next++)
        work->one(work->context, work->next);
}
#endif
