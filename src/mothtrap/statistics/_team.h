/* The threads of a framework, for reading and copying what it has just computed.
 *
 * One processor cannot read as fast as the memory gives. When a step is looked at, the threads
 * of the framework have just computed, and wait for its next operation, awake; to start others
 * would take as long as to read some megabytes alone, and these would wait for a processor. So a
 * look is a parallel region of the framework's own OpenMP runtime, whose entry the caller names.
 *
 * Each array is read by one thread, from its beginning to its end, and all of them reckon alike,
 * so what is found does not depend on who read what. */

#include <stdint.h>
#if defined(__SSE2__) && defined(__GNUC__)
#include <xmmintrin.h>
#define HAS_TEAM
#endif

#define SHARED_BYTES (1 << 22) /* less is read before a team has met */

/* `GOMP_parallel`, which the runtimes of GNU and LLVM have: a part for each of so many threads,
 * 0 = as many as the framework takes. */
typedef void (*Region)(void (*part)(void *), void *shared, unsigned threads, unsigned flags);

/* What is done to each of many things, in any order. */
typedef struct {
    void (*one)(void *context, int64_t i);
    void *context;
    int64_t many, next;
} Work;

#ifdef HAS_TEAM
/* Each thread has its own say on rounding, and on whether numbers below 1e-38 count. As the
 * standard has it, and with no exceptions. */
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
