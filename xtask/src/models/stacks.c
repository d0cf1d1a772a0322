/*
 * Keeps the stacks of the threads of a model, for LD_PRELOAD.
 *
 * loom and shuttle give each thread of each execution a stack of its own: mmap, mprotect for the
 * guard page, munmap, and a page fault for each page that is touched. A model has hundreds of
 * thousands of executions, and more than half of its processor time was spent on this. Here a
 * stack that is unmapped is kept, with its guard page, for the next thread that asks for one of
 * the same size. Every other mapping goes to the kernel as it is.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 64 };

static struct {
    void *start; /* NULL: this entry is empty */
    size_t length;
    size_t guard; /* bytes at the start that cannot be accessed */
    int is_free;
} stacks[MOST];

static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
    }
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

/* The entry of the stack that starts there, or MOST. */
static int entry_of(void *start)
{
    int at = 0;
    while (at < MOST && stacks[at].start != start) {
        at++;
    }
    return at;
}

void *mmap(void *start, size_t length, int prot, int flags, int fd, off_t offset)
{
    int is_stack = start == NULL && (flags & MAP_STACK) && (flags & MAP_ANONYMOUS);
    if (is_stack) {
        void *found = NULL;
        lock();
        for (int at = 0; at < MOST && found == NULL; at++) {
            if (stacks[at].is_free && stacks[at].length == length) {
                stacks[at].is_free = 0;
                found = stacks[at].start;
            }
        }
        unlock();
        if (found != NULL) {
            return found;
        }
    }
    void *mapped = (void *)syscall(SYS_mmap, start, length, prot, flags, fd, offset);
    if (is_stack && mapped != MAP_FAILED) {
        lock();
        int at = entry_of(NULL);
        if (at < MOST) {
            stacks[at].start = mapped;
            stacks[at].length = length;
        }
        unlock();
    }
    return mapped;
}

int mprotect(void *start, size_t length, int prot)
{
    lock();
    int at = entry_of(start);
    int is_guarded = at < MOST && prot == PROT_NONE && stacks[at].guard == length;
    if (at < MOST && !is_guarded) {
        stacks[at].guard = prot == PROT_NONE ? length : 0;
    }
    unlock();
    return is_guarded ? 0 : (int)syscall(SYS_mprotect, start, length, prot);
}

int munmap(void *start, size_t length)
{
    lock();
    int at = entry_of(start);
    int is_kept = at < MOST && stacks[at].guard > 0 && stacks[at].length == length;
    if (is_kept) {
        stacks[at].is_free = 1;
    } else if (at < MOST) {
        stacks[at].start = NULL;
        stacks[at].guard = 0;
    }
    unlock();
    return is_kept ? 0 : (int)syscall(SYS_munmap, start, length);
}
