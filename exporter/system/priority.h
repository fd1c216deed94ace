// Which threads the kernel gives the CPU to first.
#pragma once

#include <optional>

namespace gpusnoop {

// The niceness of the threads that count and that find libraries, and of others while they attach:
// records and calls are lost when these do not get the CPU, and they need little CPU time. At -15
// it weighs as much as 28 ordinary threads. Never real-time: then a bug in the exporter could stop
// a machine.
inline constexpr int counting_niceness = -15;

// Allows this process to set that niceness even after it has given up CAP_SYS_NICE. Needs
// CAP_SYS_RESOURCE; without it, changes nothing.
void allow_niceness(int niceness);

// Sets the calling thread's niceness, unless the thread already has a higher priority. False: not
// allowed, because CAP_SYS_NICE is missing or a limit (RLIMIT_NICE) forbids it; the niceness stays.
bool prefer_this_thread(int niceness);

// The calling thread has that niceness, if that is allowed, until this is destroyed by the same
// thread.
class Preferred {
public:
    explicit Preferred(int niceness);
    ~Preferred();
    Preferred(const Preferred &) = delete;
    Preferred &operator=(const Preferred &) = delete;

private:
    int before_;
};

// If `wanted`, the calling thread has the niceness of the process's first thread, until this is
// destroyed by the same thread: for work that a user could make as much of as the machine can do.
class Unpreferred {
public:
    explicit Unpreferred(bool wanted);
    ~Unpreferred();
    Unpreferred(const Unpreferred &) = delete;
    Unpreferred &operator=(const Unpreferred &) = delete;

private:
    std::optional<int> before_;
};

}  // namespace gpusnoop
