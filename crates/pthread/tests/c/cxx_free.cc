// A std::shared_mutex does not call pthread_rwlock_destroy: its memory just goes. The last owner
// unmaps it right after its unlock, while earlier unlocks may not have returned.
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>
#include <vector>

struct Object {
    std::shared_mutex mutex;
    int users;
};

static std::atomic<Object *> now{nullptr};
static std::atomic<int> arrived{0};

static constexpr int THREADS = 4, ROUNDS = 20000;

static void meet(int &phase) {
    arrived++;
    phase += THREADS;
    while (arrived < phase)
        std::this_thread::yield();
}

static void use(int me) {
    int phase = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (me == 0) {
            void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
            if (page == MAP_FAILED)
                std::abort();
            now = new (page) Object;
            now.load()->users = THREADS;
        }
        meet(phase);
        Object *object = now;
        if ((me + round) % 3 == 0)
            std::shared_lock<std::shared_mutex> guard(object->mutex);
        object->mutex.lock();
        bool last = --object->users == 0;
        for (volatile int i = 0; i < 2000; i = i + 1) // long enough for the others to line up
            ;
        object->mutex.unlock();
        if (last) {
            object->~Object();
            munmap(object, 4096);
        }
        meet(phase);
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int me = 0; me < THREADS; me++)
        threads.emplace_back(use, me);
    for (auto &thread : threads)
        thread.join();
}
