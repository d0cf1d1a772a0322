// std::shared_mutex and std::shared_timed_mutex stand on pthread_rwlock_t.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <vector>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            std::fprintf(stderr, "line %d: not %s\n", __LINE__, #what); \
            std::exit(1); \
        } \
    } while (0)

using namespace std::chrono_literals;

template <class Mutex> static void stress() {
    Mutex mutex;
    long first = 0, second = 0;
    std::vector<std::thread> threads;
    for (int me = 0; me < 8; me++)
        threads.emplace_back([&, me] {
            for (int i = 0; i < 20000; i++) {
                if ((i + me) % 4 == 0) {
                    std::unique_lock<Mutex> guard(mutex);
                    first++;
                    second++;
                } else {
                    std::shared_lock<Mutex> guard(mutex);
                    CHECK(first == second);
                }
            }
        });
    for (auto &thread : threads)
        thread.join();
    CHECK(first == 40000 && second == 40000);
}

static void timed() {
    std::shared_timed_mutex mutex;
    mutex.lock();
    std::thread([&] {
        CHECK(!mutex.try_lock() && !mutex.try_lock_shared());
        CHECK(!mutex.try_lock_for(10ms) && !mutex.try_lock_shared_for(10ms));
        CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 10ms));
    }).join();
    mutex.unlock();
    CHECK(mutex.try_lock_for(10ms));
    mutex.unlock();
    CHECK(mutex.try_lock_shared_for(10ms));
    mutex.unlock_shared();
}

static void own_deadlock_is_told() {
    std::shared_mutex mutex;
    mutex.lock();
    bool told = false;
    try {
        mutex.lock_shared();
    } catch (const std::system_error &error) {
        told = error.code() == std::errc::resource_deadlock_would_occur;
    }
    CHECK(told);
    mutex.unlock();
}

int main() {
    stress<std::shared_mutex>();
    stress<std::shared_timed_mutex>();
    timed();
    own_deadlock_is_told();
}
