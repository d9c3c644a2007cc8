// Clocks and the work queue that all peer drivers share.
#pragma once
#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

inline double clock_seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Wall seconds and CPU seconds (of the given clock) between construction and stop().
struct Stopwatch {
    clockid_t cpu_clock;
    double wall, cpu;
    explicit Stopwatch(clockid_t clock) : cpu_clock(clock), wall(clock_seconds(CLOCK_MONOTONIC)), cpu(clock_seconds(clock)) {}
    void stop(double* seconds) const {
        seconds[0] = clock_seconds(CLOCK_MONOTONIC) - wall;
        seconds[1] = clock_seconds(cpu_clock) - cpu;
    }
};

// Calls trace(first, last) for chunks of 0..count on `threads` threads, the calling one included. `seconds` gets wall
// time and the CPU time of the calling thread, which is all the work when there is one thread.
inline void run_chunks(int64_t count, int threads, double* seconds, const std::function<void(int64_t, int64_t)>& trace) {
    const int64_t chunk = 4096;  // a tile of 64 x 64 rays
    std::atomic<int64_t> next{0};
    auto work = [&] {
        for (;;) {
            int64_t first = next.fetch_add(chunk);
            if (first >= count) return;
            trace(first, first + chunk < count ? first + chunk : count);
        }
    };
    Stopwatch watch(CLOCK_THREAD_CPUTIME_ID);
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) others.emplace_back(work);
    work();
    for (auto& thread : others) thread.join();
    watch.stop(seconds);
}
