// Which threads the kernel gives the CPU to first.
#pragma once

namespace gpusnoop {

// The niceness of the counting thread: records are lost when it does not get the CPU, and it needs
// little CPU time. At -15 it weighs as much as 28 ordinary threads. Never real-time: then a bug in
// the exporter could stop a machine.
inline constexpr int counting_niceness = -15;

// Allows this process to set that niceness even after it has given up CAP_SYS_NICE. Needs
// CAP_SYS_RESOURCE; without it, changes nothing.
void allow_niceness(int niceness);

// Sets the calling thread's niceness, unless the thread already has a higher priority. False: not
// allowed, because CAP_SYS_NICE is missing or a limit (RLIMIT_NICE) forbids it; the niceness stays.
bool prefer_this_thread(int niceness);

}  // namespace gpusnoop
