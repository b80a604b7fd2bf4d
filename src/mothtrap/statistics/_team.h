/* The threads of a framework, for reading and copying what it has just computed.
 *
 * One processor cannot read as fast as the memory gives. While a step is looked at, the threads
 * of the framework wait for its next operation, awake; to start others would take as long as
 * to read some megabytes alone, and these would wait for a processor. So a look is a parallel
 * region of the framework's own OpenMP runtime, whose entry the caller names.
 *
 * Each array is read by one thread, from its beginning to its end, so what is found does not
 * depend on who read what. */

#include <stdint.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#define SHARED_BYTES (1 << 22) /* a tenth of a millisecond; less is read before a team has met */

/* `GOMP_parallel`, which the runtimes of GNU and LLVM have: a part for each of so many threads,
 * 0 = as many as the framework takes. */
typedef void (*Region)(void (*part)(void *), void *shared, unsigned threads, unsigned flags);

/* What is done to each of many things, in any order. */
typedef struct {
    void (*one)(void *context, int64_t i);
    void *context;
    int64_t many, next;
} Work;

/* Each thread has its own say about numbers below 1e-38; here they count, whatever it says. */
#ifdef __SSE2__
#define VANISH 0x8040u
static unsigned let_nothing_vanish(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before & ~VANISH);
    return before;
}
static void let_vanish(unsigned before) { _mm_setcsr(before); }
#else
static unsigned let_nothing_vanish(void) { return 0; }
static void let_vanish(unsigned before) { (void)before; }
#endif

#ifdef __GNUC__
#define NEXT(place) __atomic_fetch_add(place, 1, __ATOMIC_RELAXED)
#else
#define NEXT(place) ((*(place))++) /* where no region is entered */
#endif

static void take_part(void *shared)
{
    Work *work = shared;
    unsigned before = let_nothing_vanish();
    int64_t i;
    while ((i = NEXT(&work->next)) < work->many)
        work->one(work->context, i);
    let_vanish(before);
}

static void do_all(Work *work, int64_t bytes, Region region)
{
#ifdef __GNUC__
    if (region != NULL && bytes >= SHARED_BYTES && work->many > 1) {
        region(take_part, work, 0, 0);
        return;
    }
#endif
    take_part(work);
}
