// Which threads the kernel gives the CPU to first.
#pragma once

namespace gpusnoop {

// The niceness of the thread that counts: records are lost when it does not get the CPU, and it
// needs little of it. At -15 it weighs as much as 28 ordinary threads. Never real-time: then a
// fault of ours could stop a machine.
inline constexpr int counting_niceness = -15;

// Allows this process to do that even when it has given up the capability CAP_SYS_NICE. Needs
// CAP_SYS_RESOURCE, and else changes nothing.
void allow_niceness(int niceness);

// Makes the calling thread that nice, unless it is nicer to itself already. False: it is not
// allowed to, for want of CAP_SYS_NICE or a limit (RLIMIT_NICE); it stays as it is.
bool prefer_this_thread(int niceness);

}  // namespace gpusnoop
